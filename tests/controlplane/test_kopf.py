"""An operator written with kopf, against `kubewright up`: handlers, finalizers, timers, events, admission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kopf
import kubernetes_asyncio
import kubernetes_asyncio.client
import kubernetes_asyncio.config
import pytest
from tests.waiting import eventually

from kubewright.tls.certificates import CertificateAuthority

GROUP = "kopf-tests.example.com"
NAMESPACE = "kopf-tests"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"examples.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "examples", "singular": "example", "kind": "Example", "shortNames": ["kex"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
                "subresources": {"status": {}},
            }
        ],
    },
}


@pytest.fixture
async def client(up: Any) -> AsyncIterator[Any]:
    settings = kubernetes_asyncio.client.Configuration()
    await kubernetes_asyncio.config.load_kube_config(str(up.kubeconfig), client_configuration=settings)
    async with kubernetes_asyncio.client.ApiClient(settings) as made:
        definitions = kubernetes_asyncio.client.ApiextensionsV1Api(made)
        core = kubernetes_asyncio.client.CoreV1Api(made)
        for create, body in (
            (definitions.create_custom_resource_definition, CRD),
            (core.create_namespace, {"metadata": {"name": NAMESPACE}}),
        ):
            try:
                await create(body)
            except kubernetes_asyncio.client.ApiException as error:
                if error.status != 409:
                    raise
        yield made


class Examples:
    """Short methods to read and write the objects of the operator."""

    def __init__(self, client: Any) -> None:
        self._objects = kubernetes_asyncio.client.CustomObjectsApi(client)
        self._where = (GROUP, "v1", NAMESPACE, "examples")

    async def create(self, name: str, **spec: Any) -> dict[str, Any]:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Example", "metadata": {"name": name}, "spec": spec}
        return await self._objects.create_namespaced_custom_object(*self._where, body)

    async def get(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._objects.get_namespaced_custom_object(*self._where, name)
        except kubernetes_asyncio.client.ApiException as error:
            if error.status == 404:
                return None
            raise

    async def patch(self, name: str, body: Any) -> Any:
        return await self._objects.patch_namespaced_custom_object(
            *self._where, name, body, _content_type="application/merge-patch+json"
        )

    async def delete(self, name: str) -> None:
        await self._objects.delete_namespaced_custom_object(*self._where, name)


@pytest.fixture
def examples(client: Any) -> Examples:
    return Examples(client)


@asynccontextmanager
async def running(
    registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, kubeconfig: Path, monkeypatch: Any
) -> AsyncIterator[None]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    ready, stop = asyncio.Event(), asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=settings,
            standalone=True,
            namespaces=[NAMESPACE],
            ready_flag=ready,
            stop_flag=stop,
        )
    )
    try:
        async with asyncio.timeout(60):
            await ready.wait()
        yield
    finally:
        stop.set()
        await asyncio.wait([operator], timeout=60)
        assert operator.done()
        operator.result()


def quick() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = False
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.consistency_timeout = 60.0  # otherwise it may process a state twice
    return settings


async def test_handlers_finalizers_timers_and_events(
    up: Any, client: Any, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = kopf.OperatorRegistry()
    calls: list[tuple[str, str]] = []
    ticks: list[str] = []

    @kopf.on.create("examples", id="created", registry=registry)
    async def created(name: str, body: Any, spec: Any, patch: Any, **_: Any) -> dict[str, Any]:
        calls.append(("create", name))
        kopf.info(body, reason="Welcome", message="I have seen it.")
        patch.status["doubled"] = spec["size"] * 2
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-child"}}
        kopf.adopt(child, owner=body)
        await kubernetes_asyncio.client.CoreV1Api(client).create_namespaced_config_map(NAMESPACE, child)
        return {"done": True}

    @kopf.on.update("examples", field="spec.size", registry=registry)
    async def resized(name: str, old: Any, new: Any, retry: int, patch: Any, **_: Any) -> None:
        if retry == 0:
            raise kopf.TemporaryError("once more", delay=0.05)
        calls.append((f"{old}->{new}", name))
        patch.status["doubled"] = new * 2

    @kopf.on.delete("examples", registry=registry)
    async def deleted(name: str, **_: Any) -> None:
        calls.append(("delete", name))

    @kopf.timer("examples", interval=0.1, registry=registry)
    async def tick(name: str, **_: Any) -> None:
        ticks.append(name)

    @kopf.index("examples", registry=registry)
    async def sizes(name: str, spec: Any, **_: Any) -> dict[str, int]:
        return {name: spec["size"]}

    core = kubernetes_asyncio.client.CoreV1Api(client)
    async with running(registry, quick(), up.kubeconfig, monkeypatch):
        await examples.create("one", size=2)

        async def status_of(doubled: int) -> Any:
            found = await examples.get("one") or {}
            return found if found.get("status", {}).get("doubled") == doubled else None

        found = await eventually(lambda: status_of(4))
        assert found["metadata"]["finalizers"] == [f"{GROUP}/kopf"]
        await examples.patch("one", {"spec": {"size": 5}})
        found = await eventually(lambda: status_of(10))
        assert found["status"]["created"] == {"done": True}
        assert found["metadata"]["generation"] == 2

        async def ticked_twice() -> bool:
            return len(ticks) >= 2

        await eventually(ticked_twice)

        async def welcome() -> Any:
            events = await core.list_namespaced_event(
                NAMESPACE, field_selector="involvedObject.kind=Example,reason=Welcome"
            )
            return events.items

        (event,) = await eventually(welcome)
        assert event.message == "I have seen it."
        assert event.involved_object.uid == found["metadata"]["uid"]
        await examples.delete("one")

        async def gone() -> bool:
            return await examples.get("one") is None

        await eventually(gone)

        async def child_gone() -> bool:
            left = await core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=one-child")
            return not left.items

        await eventually(child_gone)
    assert calls == [("create", "one"), ("2->5", "one"), ("delete", "one")]


async def test_admission_webhooks(
    up: Any, client: Any, examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = CertificateAuthority.create("kopf-tests")
    pair = authority.issue("kopf", hosts=("127.0.0.1", "localhost"), server=True)
    pair.write(tmp_path / "tls.crt", tmp_path / "tls.key")
    registry = kopf.OperatorRegistry()
    settings = quick()
    settings.admission.managed = "kopf-tests.example.com"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="127.0.0.1",
        certfile=tmp_path / "tls.crt",
        pkeyfile=tmp_path / "tls.key",
        cadata=authority.certificate,
    )

    @kopf.on.mutate("examples", registry=registry)
    async def mutate(patch: Any, spec: Any, **_: Any) -> None:
        if "colour" not in spec:
            patch.spec["colour"] = "blue"

    @kopf.on.validate("examples", registry=registry)
    async def validate(spec: Any, warnings: list[str], dryrun: bool, **_: Any) -> None:
        if spec.get("size", 0) > 10:
            raise kopf.AdmissionError("too big", code=422)
        warnings.append("checked")

    hooks = kubernetes_asyncio.client.AdmissionregistrationV1Api(client)
    async with running(registry, settings, up.kubeconfig, monkeypatch):

        async def configured() -> bool:
            try:
                for read in (
                    hooks.read_validating_webhook_configuration,
                    hooks.read_mutating_webhook_configuration,
                ):
                    if not (await read("kopf-tests.example.com")).webhooks:
                        return False
            except kubernetes_asyncio.client.ApiException as error:
                if error.status == 404:
                    return False
                raise
            return True

        await eventually(configured)
        made = await examples.create("admitted", size=1)
        assert made["spec"] == {"size": 1, "colour": "blue"}
        with pytest.raises(kubernetes_asyncio.client.ApiException) as denied:
            await examples.create("denied", size=11)
        assert denied.value.status == 422
        assert "too big" in denied.value.body
        with pytest.raises(kubernetes_asyncio.client.ApiException) as excinfo:
            await examples.patch("admitted", {"spec": {"size": 12}})
        assert "denied the request: too big" in excinfo.value.body
    after = await hooks.read_validating_webhook_configuration("kopf-tests.example.com")
    assert not after.webhooks, "kopf empties its configurations when it ends"
    await examples.delete("admitted")
