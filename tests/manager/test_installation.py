"""Installation in development: which CRDs are changed, and which errors are reported."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubewright import Client, Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api import WebhookConversion
from kubewright.api.core.v1 import Container, Pod, PodSpec
from kubewright.api.errors import NotFound
from kubewright.api.events.v1 import Event
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.version_info import VersionInfo
from kubewright.cli import main
from kubewright.client import condition
from kubewright.manager import InjectionError
from kubewright.manager.operators.installation import InstallationError, install_definitions
from kubewright.manifests import crd
from kubewright.testing import run_operator
from kubewright.testing.server import TestServer, start_test_server

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


class ShopSpec(Spec):
    size: int = 1


@resource(group="installation.example.com", version="v1", storage=True)
class Shop(CustomResource[ShopSpec, None]):
    """A reconciled kind."""


@resource(group="installation.example.com", version="v2", kind="Shop")
class ShopV2(CustomResource[ShopSpec, None]):
    """A version without a converter."""


@resource(group="installation.example.com", version="v1")
class Region(CustomResource[ShopSpec, None]):
    """A kind that is only read."""


class CertificateSpec(Spec):
    secret_name: str


@resource(group="certs.example.com", version="v1", external=True)
class Certificate(CustomResource[CertificateSpec, None]):
    """The used part of a kind of another project."""


CERTIFICATE = GroupVersionKind("certs.example.com", "v1", "Certificate")


class FullCertificateSpec(Spec):
    secret_name: str
    duration: str | None = None


def full_certificate() -> dict[str, Any]:
    """Return the complete CRD of the other project."""

    @resource(group="certs.example.com", version="v1", kind="Certificate")
    class Full(CustomResource[FullCertificateSpec, None]):
        """The complete kind."""

    return crd(Full)


def partial_certificate() -> type[CustomResource[Any, Any]]:
    """Return a declaration of the used part without `external=True`."""

    @resource(group="certs.example.com", version="v1", kind="Certificate")
    class Partial(CustomResource[CertificateSpec, None]):
        """The used part."""

    return Partial


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with start_test_server("in-process") as made:
        yield made


@pytest.fixture
async def client(server: TestServer) -> Client:
    return server.client()


@pytest.fixture
async def certificate(client: Client) -> None:
    """Install the CRD of the other project, and store an object with all fields."""
    await client.apply(Unstructured(full_certificate()), field_manager="cert-manager")
    await client.wait(CRD, "certificates.certs.example.com", until=condition("Established"), timeout=60)
    client.mapper.invalidate()
    await client.create(
        Unstructured(
            {
                "apiVersion": "certs.example.com/v1",
                "kind": "Certificate",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"secretName": "tls", "duration": "90d"},
            }
        )
    )


async def stored_duration(client: Client) -> str:
    found = await client.get(CERTIFICATE, "a", namespace="default")
    return str(found.raw["spec"].get("duration"))


async def test_an_external_kind_is_reconciled_and_its_crd_is_not_changed(
    client: Client, certificate: None
) -> None:
    before = (await client.get(CRD, "certificates.certs.example.com")).raw["metadata"]["resourceVersion"]
    operator = Operator("certs")
    seen = asyncio.Event()

    @operator.reconcile(Certificate)
    async def reconcile(certificate: Certificate, ctx: Context[Certificate]) -> None:
        certificate.metadata.labels = {"seen": "yes"}
        await ctx.client.update(certificate)
        seen.set()

    assert Certificate not in operator.kinds
    async with run_operator(operator, client), asyncio.timeout(60):
        await seen.wait()
    assert await stored_duration(client) == "90d"
    after = (await client.get(CRD, "certificates.certs.example.com")).raw["metadata"]["resourceVersion"]
    assert after == before


async def test_a_crd_of_another_program_is_not_changed(client: Client, certificate: None) -> None:
    kind = partial_certificate()
    with pytest.raises(InstallationError) as caught:
        await install_definitions(client.with_field_manager("certs"), [kind])
    assert str(caught.value) == (
        "CRD certificates.certs.example.com was installed by cert-manager, and its schema differs from the "
        "declared one; declare the kind with @resource(..., external=True) to use it as it is, or adopt and "
        "replace it with --adopt-crds"
    )
    assert await stored_duration(client) == "90d"


async def test_an_adopted_crd_does_not_lose_fields_of_stored_objects(
    client: Client, certificate: None
) -> None:
    kind = partial_certificate()
    with pytest.raises(InstallationError, match=r"removes field \.spec\.duration \(v1\), and stored objects"):
        await install_definitions(client.with_field_manager("certs"), [kind], adopt=True)
    assert await stored_duration(client) == "90d"
    await client.delete(CERTIFICATE, "a", namespace="default")
    await install_definitions(client.with_field_manager("certs"), [kind], adopt=True)
    adopted = (await client.get(CRD, "certificates.certs.example.com")).raw
    assert adopted["metadata"]["annotations"] == {"kubewright.dev/installed-by": "certs"}
    with pytest.raises(InstallationError, match="was installed by operator certs"):
        await install_definitions(client.with_field_manager("other"), [_with_spec(FullCertificateSpec)])


def _with_spec(spec: type[Spec]) -> type[CustomResource[Any, Any]]:
    @resource(group="certs.example.com", version="v1", kind="Certificate")
    class Kind(CustomResource[spec, None]):  # type: ignore[valid-type]
        """A certificate."""

    return Kind


async def test_an_equal_crd_of_another_program_is_used(client: Client) -> None:
    await install_definitions(client.with_field_manager("one"), [Region])
    await install_definitions(client.with_field_manager("two"), [Region])
    found = (await client.get(CRD, "regions.installation.example.com")).raw
    assert found["metadata"]["annotations"] == {"kubewright.dev/installed-by": "one"}


async def test_an_own_crd_changes_with_the_program(client: Client) -> None:
    mine = client.with_field_manager("shops")
    await install_definitions(mine, [_with_spec(CertificateSpec)])
    await install_definitions(mine, [_with_spec(FullCertificateSpec)])
    fields = (await client.get(CRD, "certificates.certs.example.com")).raw["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]["properties"]["spec"]["properties"]
    assert sorted(fields) == ["duration", "secretName"]


async def test_a_name_conflict_is_reported_immediately(client: Client) -> None:
    @resource(group="installation.example.com", version="v1", kind="Zone", plural="regions-of-zones")
    class Zone(CustomResource[ShopSpec, None]):
        """Conflicts with Region by its singular name."""

    @resource(group="installation.example.com", version="v1", kind="Territory", singular="region")
    class Territory(CustomResource[ShopSpec, None]):
        """Conflicts with Region by its singular name."""

    await install_definitions(client, [Region, Zone])
    async with asyncio.timeout(60):
        with pytest.raises(InstallationError) as caught:
            await install_definitions(client, [Territory])
    assert "CRD territories.installation.example.com is not served because its names are not accepted" in str(
        caught.value
    )
    assert '"region" is already in use' in str(caught.value)


def shop_operator() -> Operator:
    operator = Operator("shops")

    @operator.reconcile(Shop)
    async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
        await ctx.client.get(Region, "north", namespace="default")

    return operator


async def test_development_installs_the_kinds_of_the_manifests(client: Client) -> None:
    operator = shop_operator()
    assert operator.kinds == [Shop, ShopV2, Region]
    async with run_operator(operator, client):
        versions = (await client.get(CRD, "shops.installation.example.com")).raw["spec"]["versions"]
        assert [each["name"] for each in versions] == ["v1", "v2"]
        await client.get(CRD, "regions.installation.example.com")
    with pytest.raises(NotFound):
        await client.get(CRD, "certificates.certs.example.com")


def test_finalizers_of_external_kinds_are_named() -> None:
    operator = Operator("certs")
    with pytest.raises(
        InjectionError, match=r"Certificate is not a kind of this project; name the finalizer"
    ):
        operator.finalize(Certificate)(lambda: None)
    operator.finalize(Certificate, finalizer="example.com/certs")(lambda: None)


def test_manifests_do_not_contain_external_kinds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "certs.py").write_text(EXTERNAL_PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "certs", raising=False)
    result = CliRunner().invoke(main, ["manifests", "certs", "--output", "-"])
    assert result.exit_code == 0, result.output
    documents = [each for each in yaml.safe_load_all(result.output) if each]
    assert [each["kind"] for each in documents] == ["ClusterRole"]
    assert "certificates" in result.output


EXTERNAL_PROGRAM = """
from kubewright import CustomResource, Operator, Spec, resource

class CertificateSpec(Spec):
    secret_name: str

@resource(group="certs.example.com", version="v1", external=True)
class Certificate(CustomResource[CertificateSpec, None]):
    pass

operator = Operator("certs")

@operator.reconcile(Certificate)
async def reconcile(certificate: Certificate) -> None: ...
"""


async def test_a_missing_external_kind_is_an_error_that_names_it(client: Client) -> None:
    operator = Operator("certs")

    @operator.reconcile(Certificate)
    async def reconcile(certificate: Certificate) -> None: ...

    with pytest.raises(InstallationError, match=r"does not serve .*Certificate.*install its CRD first"):
        async with run_operator(operator, client):
            pass


async def test_a_conversion_without_converter_is_an_error(client: Client) -> None:
    @resource(group="installation.example.com", version="v1", conversion=WebhookConversion())
    class Clock(CustomResource[ShopSpec, None]):
        """Has no converter."""

    operator = Operator("clocks")
    operator.timer(Clock, interval=60)(lambda: None)

    with pytest.raises(
        InstallationError, match=r"Clock declares conversion=.*operator clocks has no converter"
    ):
        async with run_operator(operator, client):
            pass


def test_a_conversion_without_converter_is_a_warning_of_the_manifests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "clocks.py").write_text(CONVERSION_PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "clocks", raising=False)
    result = CliRunner().invoke(main, ["manifests", "clocks"])
    assert result.exit_code == 0, result.output
    assert "Clock: declares conversion=WebhookConversion(), but no operator has a converter" in result.output


CONVERSION_PROGRAM = """
from kubewright import CustomResource, Operator, Spec, resource
from kubewright.api import WebhookConversion

class ClockSpec(Spec):
    time: str

@resource(group="clocks.example.com", version="v1", conversion=WebhookConversion())
class Clock(CustomResource[ClockSpec, None]):
    pass

operator = Operator("clocks")
"""


async def test_an_object_that_does_not_match_its_class_is_skipped(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The stored object was valid in an earlier version of the schema."""
    region = GroupVersionKind("installation.example.com", "v1", "Region")
    earlier = crd(Region)
    fields = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["size"] = {"x-kubernetes-preserve-unknown-fields": True}
    await client.apply(Unstructured(earlier), field_manager="shops")
    await client.wait(CRD, "regions.installation.example.com", until=condition("Established"), timeout=60)
    client.mapper.invalidate()
    for name, size in (("bad", "large"), ("good", 1)):
        manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": {"size": size}}
        await client.create(Unstructured({"apiVersion": region.api_version, "kind": region.kind, **manifest}))
    seen: list[str] = []
    reconciled = asyncio.Event()
    operator = Operator("regions")

    @operator.reconcile(Region)
    async def reconcile(region: Region) -> None:
        seen.append(region.name)
        reconciled.set()

    reason = "Region default/bad in installation.example.com/v1 does not match class Region: .spec.size: "
    async with run_operator(operator, client, development=False), asyncio.timeout(60):
        await reconciled.wait()
        while not (events := [each async for each in client.list(Event, namespace="default")]):
            await asyncio.sleep(0.01)
        bad = await client.get(region, "bad", namespace="default")
        bad.raw["spec"]["size"] = 2
        reconciled.clear()
        await client.update(bad)
        await reconciled.wait()
    assert seen == ["good", "bad"]
    assert [each.reason for each in events] == ["InvalidObject"]
    assert (events[0].note or "").startswith(reason)
    (record,) = [
        each for each in caplog.records if each.levelname == "ERROR" and each.name.startswith("kubewright.")
    ]
    assert record.message == "reconcile failed with a terminal error, not retrying"
    assert reason in record.__dict__["error"]


async def test_webhooks_of_built_in_kinds_are_called() -> None:
    operator = Operator("pods")

    @operator.default(Pod)
    def set_defaults(pod: Pod) -> None:
        pod.metadata.labels = {**(pod.metadata.labels or {}), "defaulted": "yes"}

    @operator.validate(Pod, path="/check-pods")
    def validate(new: Pod, old: Pod | None) -> Sequence[Any]:
        return ()

    async with start_test_server("tls") as server:
        client = server.client()
        async with run_operator(operator, client):
            pod = Pod(
                metadata=ObjectMeta(name="a", namespace="default"),
                spec=PodSpec(containers=[Container(name="c", image="i")]),
            )
            created = await client.create(pod)
            assert created.metadata.labels == {"defaulted": "yes"}
        kind = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")
        with pytest.raises(NotFound):
            await client.get(kind, "pods-mutating")


async def run(
    project: Path, kubeconfig: Path, *arguments: str, stdin: int = asyncio.subprocess.DEVNULL
) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubewright.cli", "run", "shop", "--development", *arguments),
        cwd=project,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 120)
    return process.returncode, output.decode()


PROGRAM = """
import os, signal
from kubewright import CustomResource, Operator, Spec, resource

class ShopSpec(Spec):
    size: int = 1

@resource(group="run.example.com", version="v1")
class Shop(CustomResource[ShopSpec, None]):
    pass

operator = Operator("shops")

@operator.on_startup
def begin() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
"""


async def test_the_first_installation_in_another_cluster_is_confirmed(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    async with start_test_server("tls", None, controllers=False) as server:
        server.plane.server.version = VersionInfo(git_commit="")
        kubeconfig = server.plane.kubeconfig
        client = server.client()
        code, output = await run(tmp_path, kubeconfig)
        assert code == 1
        assert "Operator shops will install in https://127.0.0.1:" in output
        assert "  CRD shops.run.example.com (new)\n" in output
        assert "is not a control plane of `kubewright up`; confirm the installation with --yes" in output
        with pytest.raises(NotFound):
            await client.get(CRD, "shops.run.example.com")
        terminal, stdin = os.openpty()
        os.write(terminal, b"n\n")
        code, output = await run(tmp_path, kubeconfig, stdin=stdin)
        assert code == 1
        assert "Continue? [y/N]: " in output
        assert "nothing was installed" in output
        with pytest.raises(NotFound):
            await client.get(CRD, "shops.run.example.com")
        os.write(terminal, b"y\n")
        code, output = await run(tmp_path, kubeconfig, stdin=stdin)
        assert code == 0, output
        os.close(terminal)
        os.close(stdin)
        await client.delete(CRD, "shops.run.example.com")
        code, output = await run(tmp_path, kubeconfig, "--yes")
        assert code == 0, output
        await client.get(CRD, "shops.run.example.com")
        code, output = await run(tmp_path, kubeconfig)
        assert code == 0, output
