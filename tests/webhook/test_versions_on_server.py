"""Objects in several versions on an API server: the embedded one, or a real one with `KUBEBUILDER_ASSETS`.

What is written in one version is read and written in every other one, with kubectl and with a client, and
nothing is lost or changed.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest

from kubewright import Converter, CustomResource, Operator, Spec, Status, resource
from kubewright.api import ObjectMeta, Unstructured, WebhookConversion
from kubewright.api.core.v1 import Namespace
from kubewright.api.declaring.declarations import Scale
from kubewright.api.encoding import codec
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.markers import ListMap
from kubewright.client import Client, ClusterConfig, merge_patch
from kubewright.scaffold import ProjectInputs, ResourceInput, create_api, init_project
from kubewright.testing import run_operator, start_test_server
from kubewright.testing.server import TestServer
from kubewright.webhook import DefaultHub, DefaultSpoke, MapValues, Move, Wrap

EXAMPLES = Path(__file__).parents[2] / "examples"
GROUP = "versions.example.com"
SCALE = {"status_replicas": ".status.replicas"}


class RouteV1(Spec):
    host: str
    weight: int = 1


class RouteV2(Spec):
    host: str
    weight: int = 1
    timeout: int | None = None


class PortV2(Spec):
    number: int
    protocol: str = "TCP"


class GateStatus(Status):
    replicas: int | None = None
    phase: str | None = None


class GateV1Spec(Spec):
    size: int = 1
    mode: str = "fast"
    port: int | None = None
    routes: Annotated[list[RouteV1], ListMap("host")] | None = None
    comment: str = "none"


class GateV2Spec(Spec):
    replicas: int = 1
    mode: str = "Fast"
    class_name: str = "standard"
    ports: list[PortV2] | None = None
    routes: Annotated[list[RouteV2], ListMap("host")] | None = None
    annotations: dict[str, str] | None = None


class GateV3Spec(Spec):
    replicas: int = 3
    class_name: str = "standard"


@resource(group=GROUP, version="v1", kind="Gate", scale=Scale(spec_replicas=".spec.size", **SCALE))
class GateV1(CustomResource[GateV1Spec, GateStatus]):
    """A gate."""


@resource(
    group=GROUP,
    version="v2",
    kind="Gate",
    storage=True,
    hub=True,
    conversion=WebhookConversion(),
    scale=Scale(spec_replicas=".spec.replicas", **SCALE),
)
class GateV2(CustomResource[GateV2Spec, GateStatus]):
    """A gate."""


@resource(group=GROUP, version="v3", kind="Gate", scale=Scale(spec_replicas=".spec.replicas", **SCALE))
class GateV3(CustomResource[GateV3Spec, GateStatus]):
    """A gate."""


def make_operator() -> Operator:
    operator = Operator("gates")
    converter = operator.convert(Converter(GateV2))
    converter.spoke(
        GateV1,
        rules=(
            Move("spec.size", "spec.replicas"),
            MapValues("spec.mode", {"fast": "Fast", "slow": "Slow"}),
            Wrap("spec.port", "spec.ports", key="number"),
            DefaultHub("spec.className"),
            DefaultSpoke("spec.comment"),
        ),
    )
    converter.spoke(GateV3, rules=())
    return operator


GATES: dict[str, dict[str, Any]] = {
    "v1": {"size": 1, "mode": "fast", "port": 80, "comment": "first", "routes": [{"host": "a", "weight": 1}]},
    "v2": {
        "replicas": 1,
        "className": "gold",
        # kubectl replaces lists of custom resources as a whole: elements without defaults always differ.
        "ports": [{"number": 80, "protocol": "UDP"}, {"number": 443, "protocol": "TCP"}],
        "routes": [{"host": "a", "weight": 1, "timeout": 5}, {"host": "b", "weight": 1}],
        "annotations": {"a": "b"},
    },
    "v3": {"replicas": 3},
}


class Kubectl:
    """kubectl, as an administrator of a test server."""

    def __init__(self, config: ClusterConfig, directory: Path) -> None:
        program = shutil.which("kubectl")
        if program is None:
            pytest.skip("kubectl is not installed")
        self.directory = directory
        options = [program, f"--server={config.server}", f"--cache-dir={directory / 'cache'}"]
        for option, pem in (
            ("certificate-authority", config.ca),
            ("client-certificate", config.client_certificate),
            ("client-key", config.client_key),
        ):
            if pem is not None:
                (directory / option).write_bytes(pem.data or Path(pem.file).read_bytes())
                options.append(f"--{option}={directory / option}")
        self.options = [*options, *([f"--token={config.token}"] if config.token else [])]

    async def __call__(self, *arguments: str, given: Any = None, code: int = 0) -> str:
        done = await asyncio.to_thread(
            subprocess.run,
            [*self.options, *arguments],
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": str(self.directory), "KUBECONFIG": ""},
        )
        assert done.returncode == code, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
async def server(real_config: ClusterConfig | None) -> AsyncIterator[TestServer]:
    kind = "tls" if real_config is None else "real"
    async with start_test_server(
        kind, real_config, **({} if real_config else {"controllers": False})
    ) as made:
        if real_config is not None:
            owner = made.client().with_field_manager("test")
            await owner.apply(Namespace(metadata=ObjectMeta(name="default")))
        yield made


def without_name(obj: Unstructured) -> dict[str, Any]:
    """Return what clients of a version see, except what every write changes."""
    plain: dict[str, Any] = json.loads(codec.encode(obj))
    metadata = {key: plain["metadata"].get(key) for key in ("uid", "labels", "annotations", "generation")}
    return {**plain, "metadata": metadata}


async def check_versions(
    client: Client,
    kubectl: Kubectl,
    kinds: Sequence[GroupVersionKind],
    specs: dict[str, dict[str, Any]],
    *,
    replicas: bool = False,
) -> None:
    """Write an object in each version, and read and write it in every other one."""
    for written in kinds:
        name = f"written-in-{written.version}"
        manifest = {
            "apiVersion": written.api_version,
            "kind": written.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": specs[written.version],
        }
        assert "created" in await kubectl("apply", "-f", "-", given=manifest)
        assert "unchanged" in await kubectl("apply", "-f", "-", given=manifest)
        assert await kubectl("diff", "-f", "-", given=manifest) == ""
        original = await client.get(written, name)
        for each, value in specs[written.version].items():
            if not isinstance(value, list | dict):
                assert original["spec"][each] == value

        for other in kinds:
            before = without_name(await client.get(written, name))
            seen = await client.get(other, name)
            await client.update(seen)
            assert without_name(await client.get(written, name)) == before
            assert without_name(await client.get(other, name)) == without_name(seen)

            labelled = merge_patch({"metadata": {"labels": {"through": other.version}}})
            await client.patch(other, name, labelled)
            status = (
                merge_patch({"status": {"phase": other.version}}) if replicas else merge_patch({"status": {}})
            )
            await client.subresource("status", other, name).patch(status)
            after = await client.get(written, name)
            assert after["spec"] == before["spec"]
            if replicas:
                assert after["status"]["phase"] == other.version

            if other != written:
                same = {**manifest, "apiVersion": other.api_version, "spec": seen["spec"]}
                await kubectl("apply", "-f", "-", given=same)
                assert "unchanged" in await kubectl("apply", "-f", "-", given=same)
                assert await kubectl("diff", "-f", "-", given=same) == ""
                assert (await client.get(written, name))["spec"] == before["spec"]

            if replicas:
                assert (await client.scale(other, name)).spec.replicas == specs[written.version].get(
                    "replicas", specs[written.version].get("size")
                )
                assert (await client.scale(other, name, replicas=7)).spec.replicas == 7
                resized = (await client.get(written, name))["spec"]
                field = "size" if written.version == "v1" else "replicas"
                assert resized == {**before["spec"], field: 7}
                await client.scale(other, name, replicas=before["spec"][field])
        await kubectl("apply", "-f", "-", given=manifest)
        assert (await client.get(written, name))["spec"] == original["spec"]


async def test_versions_of_different_shape(server: TestServer, tmp_path: Path) -> None:
    assert server.config is not None
    kubectl = Kubectl(server.config, tmp_path)
    client = server.client()
    kinds = [GroupVersionKind(GROUP, version, "Gate") for version in ("v1", "v2", "v3")]
    async with run_operator(make_operator(), client, metrics_port=None, webhook_port=0):
        await check_versions(client, kubectl, kinds, GATES, replicas=True)
        stored = await client.get(kinds[1], "written-in-v2")
        assert stored["spec"] == {
            "replicas": 1,
            "mode": "Fast",
            "className": "gold",
            "ports": [{"number": 80, "protocol": "UDP"}, {"number": 443, "protocol": "TCP"}],
            "routes": [{"host": "a", "weight": 1, "timeout": 5}, {"host": "b", "weight": 1}],
            "annotations": {"a": "b"},
        }


async def test_the_versions_of_a_new_project(server: TestServer, tmp_path: Path) -> None:
    assert server.config is not None
    project = tmp_path / "project"
    init_project(project, ProjectInputs(name="bazaar"))
    create_api(project, ResourceInput(group="store", version="v1", kind="Shop"))
    create_api(project, ResourceInput(group="store", version="v2", kind="Shop"))
    sys.path.insert(0, str(project / "src"))
    for module in ("bazaar.shop_controller", "bazaar.shop_conversion"):
        importlib.import_module(module)
    operator = importlib.import_module("bazaar.operator").operator
    client = server.client()
    (first, *_) = operator.kinds
    kinds = [GroupVersionKind(first.gvk.group, version, "Shop") for version in ("v1", "v2")]
    async with run_operator(operator, client, metrics_port=None, webhook_port=0):
        specs: dict[str, dict[str, Any]] = {"v1": {"size": 1}, "v2": {"size": 2}}
        await check_versions(client, Kubectl(server.config, tmp_path), kinds, specs)


async def test_the_versions_of_the_example(
    server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.config is not None
    monkeypatch.syspath_prepend(str(EXAMPLES / "cronjob"))
    example = importlib.import_module("cronjob")
    container = {"name": "hello", "image": "busybox"}
    template = {"spec": {"template": {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}}}
    settings = {"jobTemplate": template, "suspend": True, "failedJobsHistoryLimit": 1}
    specs = {"v1": {"schedule": "@hourly", **settings}, "v2": {"schedule": {"minute": "*/5"}, **settings}}
    client = server.client()
    kinds = [GroupVersionKind(example.v1.GROUP, version, "CronJob") for version in ("v1", "v2")]
    async with run_operator(example.make_operator(), client, metrics_port=None, webhook_port=0):
        await check_versions(client, Kubectl(server.config, tmp_path), kinds, specs)
