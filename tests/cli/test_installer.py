"""`build-installer`: its objects are accepted, and the operator runs with its ServiceAccount only.

The process is started with the command of the generated Deployment and a token of the generated
ServiceAccount; only the ports are others.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.cli.in_process import kubewright
from tests.deployment_project import ShopProject, make_project
from tests.helm_renderer import render_chart
from tests.ports import reserve_ports
from tests.waiting import eventually

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.apply_order import in_apply_order
from kubewright.api.authentication.v1 import TokenRequest, TokenRequestSpec
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import ConfigMap, Event, Namespace, Secret, ServiceAccount
from kubewright.api.errors import Forbidden, Invalid
from kubewright.client import Client, ClusterConfig, condition, exists, is_deleted
from kubewright.testing.server import TestServer, start_test_server

Manifest = dict[str, Any]
SYSTEM = "shop-system"
SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class Ports:
    webhooks: int
    metrics: int
    probes: int


@pytest.fixture
def ports() -> Iterator[Ports]:
    with reserve_ports(3) as reserved:
        yield Ports(*reserved)


@pytest.fixture
async def server(ports: Ports) -> AsyncIterator[TestServer]:
    services = (f"shop-webhook-service.{SYSTEM}", "east-shop-webhook-service.east")
    resolve = dict.fromkeys(services, f"https://127.0.0.1:{ports.webhooks}")
    async with start_test_server("tls", None, controllers=False, webhook_resolve=resolve) as made:
        yield made


@pytest.fixture
def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopProject:
    return make_project(tmp_path, monkeypatch)


async def token_of(client: Client, name: str, namespace: str) -> str:
    request = await client.subresource("token", ServiceAccount, name, namespace=namespace).create(
        TokenRequest(spec=TokenRequestSpec(audiences=[], expiration_seconds=3600))
    )
    assert request.status is not None
    return request.status.token


def write_kubeconfig(config: ClusterConfig, token: str, path: Path) -> None:
    assert config.ca is not None
    path.with_suffix(".crt").write_bytes(config.ca.read())
    cluster = {"server": config.server, "certificate-authority": str(path.with_suffix(".crt"))}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "robot",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "robot", "user": {"token": token}}],
        "contexts": [{"name": "robot", "context": {"cluster": "test", "user": "robot"}}],
    }
    path.write_text(json.dumps(document))


def deployment_in(manifests: Iterable[Manifest]) -> Manifest:
    (deployment,) = [each for each in manifests if each["kind"] == "Deployment"]
    return deployment


def container_command(deployment: Manifest, ports: Ports) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of the manager container, with free ports."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    program, *arguments = [*container["command"], *container["args"]]
    assert program == "kubewright"
    others = {"--metrics-port=8443": f"--metrics-port={ports.metrics}"}
    others["--probe-port=8081"] = f"--probe-port={ports.probes}"
    assert set(others) <= set(arguments)
    command = [others.get(each, each) for each in arguments]
    namespace = deployment["metadata"]["namespace"]
    environment = {each["name"]: each.get("value") or namespace for each in container.get("env", ())}
    return [sys.executable, "-m", "kubewright.cli", *command, f"--webhook-port={ports.webhooks}"], environment


@asynccontextmanager
async def running_manager(
    directory: Path, server: TestServer, client: Client, ports: Ports, deployment: Manifest
) -> AsyncIterator[None]:
    """Run the container command of a Deployment as its ServiceAccount."""
    assert server.config is not None
    kubeconfig = directory / "robot.kubeconfig"
    namespace = deployment["metadata"]["namespace"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    write_kubeconfig(server.config, await token_of(client, account, namespace), kubeconfig)
    command, environment = container_command(deployment, ports)
    log = directory / "manager.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdout=output,
            stderr=output,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("KUBE")},
                "PYTHONPATH": str(SOURCE),
                "KUBECONFIG": str(kubeconfig),
                "POD_NAMESPACE": namespace,
                **environment,
            },
        )
    try:
        yield
        assert process.poll() is None, log.read_text()
    except BaseException:
        print(log.read_text())
        raise
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 60)
    assert process.returncode == 0, log.read_text()
    denied = [line for line in log.read_text().splitlines() if "forbidden" in line.lower()]
    assert denied == []


async def install(project: ShopProject, client: Client) -> Manifest:
    """Apply the installer and return the Deployment."""
    result = await asyncio.to_thread(project.run, "build-installer")
    assert "wrote dist/install.yaml" in result.stderr
    installer = project.directory / "dist/install.yaml"
    manifests = list(yaml.safe_load_all(installer.read_text()))
    kinds = [each["kind"] for each in manifests]
    assert kinds[:2] == ["Namespace", "CustomResourceDefinition"]
    assert kinds[-1] == "ValidatingWebhookConfiguration"
    applied = await client.apply_yaml(installer)
    assert len(applied) == len(kinds)
    return deployment_in(manifests)


async def has_ca_bundles(client: Client, name: str = "shop") -> bool:
    for kind in ("mutating", "validating"):
        found = await client.get(f"{kind}webhookconfigurations", f"{name}-{kind}-webhook-configuration")
        if not found["webhooks"][0]["clientConfig"].get("caBundle"):
            return False
    return True


def shop(name: str, namespace: str, replicas: int = 2) -> Unstructured:
    return Unstructured(
        {
            "apiVersion": "store.example.com/v1",
            "kind": "Shop",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": replicas},
        }
    )


async def scrape(port: int, token: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}/metrics", headers=headers, ssl=False) as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("namespaced", [False, True], ids=["cluster", "namespaced"])
async def test_the_operator_runs_with_its_service_account(
    project: ShopProject, server: TestServer, client: Client, ports: Ports, *, namespaced: bool
) -> None:
    project.settings("replicas = 1", project=f"namespaced = {str(namespaced).lower()}")
    deployment = await install(project, client)
    namespace = SYSTEM if namespaced else "default"
    async with running_manager(project.directory, server, client, ports, deployment):
        await eventually(lambda: has_ca_bundles(client))
        created = await client.create(shop("corner", namespace))
        assert created["spec"]["owner"] == "default-owner"
        with pytest.raises(Invalid, match="at most 99"):
            await client.create(shop("big", namespace, replicas=100))
        await client.wait(ConfigMap, "corner", namespace=namespace, until=exists, timeout=60)

        async def is_reconciled() -> bool:
            found: dict[str, Any] = (await client.get(created.gvk, "corner", namespace=namespace)).raw
            events = [each.reason async for each in client.list(Event, namespace=namespace)]
            return (found.get("status") or {}).get("replicas") == 2 and "Opened" in events

        await eventually(is_reconciled)
        assert (await client.get(Lease, "shop", namespace=SYSTEM)).spec.holder_identity
        assert (await client.get(Secret, "shop-webhook-certificates", namespace=SYSTEM)).data
        await check_metrics(project, client, ports)
        await client.delete(created)
        await client.wait(created.gvk, "corner", namespace=namespace, until=is_deleted, timeout=60)
    robot = client.with_impersonation(f"system:serviceaccount:{SYSTEM}:shop-controller-manager")
    with pytest.raises(Forbidden):
        await robot.get(Secret, "another", namespace=SYSTEM)
    if namespaced:
        with pytest.raises(Forbidden):
            await robot.list(ConfigMap, namespace="default")


async def check_metrics(project: ShopProject, client: Client, ports: Ports) -> None:
    """Only clients with the role `shop-metrics-reader` can scrape, and the dashboard shows real metrics."""
    assert (await scrape(ports.metrics, ""))[0] == 401
    account = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "shop-metrics-reader",
    }
    for manifest in (
        {"apiVersion": "v1", **account, "metadata": {"name": "prometheus", "namespace": "default"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "prometheus"},
            "roleRef": reference,
            "subjects": [account],
        },
    ):
        content = {name: value for name, value in manifest.items() if name not in ("name", "namespace")}
        await client.create(Unstructured(content))
    own = await token_of(client, "shop-controller-manager", SYSTEM)
    assert (await scrape(ports.metrics, own))[0] == 403
    status, text = await scrape(ports.metrics, await token_of(client, "prometheus", "default"))
    assert status == 200
    await asyncio.to_thread(project.run, "manifests")
    panels = json.loads((project.directory / "config/grafana/dashboard.json").read_text())["panels"]
    shown = {name for panel in panels for name in re.findall(r"([a-z_]+)\{", panel["targets"][0]["expr"])}
    exported = set(re.findall(r"^([a-z_]+)", text, re.MULTILINE))
    assert len(shown) == 16
    assert shown <= exported, shown - exported


def new_project(directory: Path) -> None:
    """Create a project with the commands of the tutorial."""
    kind = ("--group", "store", "--version", "v1", "--kind", "Shop")
    for command in (
        ("init", "--domain", "example.com", "--name", "shop"),
        ("create", "api", *kind),
        ("create", "webhook", *kind, "--defaulting", "--validation"),
        ("build-installer",),
        ("helm",),
    ):
        done = kubewright(directory, *command)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["installer", "chart"])
async def test_a_new_project_runs_in_a_cluster(
    tmp_path: Path, server: TestServer, client: Client, ports: Ports, package: str
) -> None:
    directory = tmp_path / "shop"
    directory.mkdir()
    new_project(directory)
    if package == "installer":
        manifests, name = list(yaml.safe_load_all((directory / "dist/install.yaml").read_text())), "shop"
    else:
        await client.create(Namespace(metadata=ObjectMeta(name="east")))
        chart = render_chart(directory / "dist/chart", release="east", namespace="east")
        manifests, name = [dict(each) for each in in_apply_order(chart)], "east-shop"
    await client.apply_yaml("\n---\n".join(json.dumps(each) for each in manifests))
    async with running_manager(directory, server, client, ports, deployment_in(manifests)):
        await eventually(lambda: has_ca_bundles(client, name))
        (sample,) = await client.apply_yaml(directory / "config/samples", namespace="default")
        assert sample.metadata.labels == {"app.kubernetes.io/part-of": "shop"}
        await client.wait(sample, until=condition("Ready"), timeout=60)
