"""An operator that was scaffolded runs in the embedded cluster, from its own manifests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from bench._ports import unused_port
from tests.workloads.nodes.process_cluster import linux_only

from kubewright.api.errors import InternalError
from kubewright.client import Client, load_config

pytestmark = linux_only

SOURCE = Path(__file__).parents[3] / "src"
RUN = "import sys; from kubewright.cli import main; sys.exit(main())"


async def kubewright(folder: Path, *arguments: str) -> None:
    """Run the command line in a directory."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        RUN,
        *arguments,
        cwd=folder,
        env=environment(folder),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(180):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


def environment(folder: Path) -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": f"{SOURCE}:{folder / 'src'}"}
    found.pop("KUBECONFIG", None)
    return found


async def test_operator_runs_from_its_own_deployment(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    await kubewright(project, "init", "--domain", "example.com")
    await kubewright(project, "create", "api", "--group", "shop", "--version", "v1", "--kind", "Order")
    await kubewright(
        project, "create", "webhook", "--group", "shop", "--version", "v1", "--kind", "Order", "--validation"
    )
    manifest = project / "config" / "manager" / "manager.yaml"
    text = manifest.read_text()
    # Processes share the ports of the machine; the probe starts sooner than in a cluster.
    text = text.replace("--production,", "--production, --webhook-port=9443,")
    for port in (8081, 8443, 9443):
        text = text.replace(str(port), str(unused_port()))
    manifest.write_text(text.replace("initialDelaySeconds: 5, periodSeconds: 10", "periodSeconds: 1"))
    ready, log = tmp_path / "ready", tmp_path / "log"
    with log.open("wb") as output:
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            RUN,
            *(
                "up",
                "--nodes",
                "1",
                "--run-processes",
                "--ready-file",
                str(ready),
                "--kubeconfig",
                "admin.conf",
            ),
            cwd=project,
            env=environment(project),
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(180):
            while not ready.exists():
                await asyncio.sleep(0.05)
        await reconcile_sample(project)
    finally:
        server.terminate()
        async with asyncio.timeout(120):
            await server.wait()
    assert "Warning: --run-processes runs the commands of pods on this machine" in log.read_text()


async def reconcile_sample(project: Path) -> None:
    """Deploy the operator, and wait until it has reconciled a sample."""
    async with Client.connect(load_config(project / "admin.conf")) as client:
        for part in ("manager/manager.yaml", "crd", "rbac", "webhook"):
            await client.apply_yaml(project / "config" / part)
        async with asyncio.timeout(300):
            while True:
                deployment = await client.get(
                    "deployments.apps", "shop-controller-manager", namespace="shop-system"
                )
                if deployment.raw.get("status", {}).get("readyReplicas") == 1:
                    break
                await asyncio.sleep(0.1)
            # The webhook is called through the endpoints of its service, which are updated after the pod.
            while True:
                try:
                    await client.apply_yaml(project / "config" / "samples")
                    break
                except InternalError:
                    await asyncio.sleep(0.1)
            while True:
                order = await client.get("orders.shop.example.com", "order-sample", namespace="default")
                conditions = (order.raw.get("status") or {}).get("conditions") or []
                if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                    break
                await asyncio.sleep(0.1)
        [pod] = await client.list("pods", namespace="shop-system")
        writers = {each["manager"] for each in order.raw["metadata"]["managedFields"]}
        assert pod.raw["spec"]["serviceAccountName"] == "shop-controller-manager"
        assert len(writers) > 1, json.dumps(order.raw)
