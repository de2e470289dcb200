"""The example operator: manifests, webhooks and permissions."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from kubewright.api import ObjectMeta
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import Invalid
from kubewright.cli import main
from kubewright.client import Client
from kubewright.manager.observability.http import HTTPServer
from kubewright.testing.permissions import PermissionRecorder

EXAMPLE = Path(__file__).parents[2] / "examples" / "guestbook"


@pytest.fixture
def guestbook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("guestbook_under_test", EXAMPLE / "guestbook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_manifests_contain_crd_roles_and_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    result = CliRunner().invoke(main, ["manifests", "guestbook", "--output", "-"])
    assert result.exit_code == 0, result.output
    documents = [each for each in yaml.safe_load_all(result.output) if each]
    kinds = [document["kind"] for document in documents]
    assert sorted(set(kinds)) == [
        "ClusterRole",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "Role",
        "ValidatingWebhookConfiguration",
    ]
    role = documents[kinds.index("ClusterRole")]
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {"get", "list", "watch", "update"} <= granted["webapp.my.domain", "guestbooks"]
    assert {"create", "delete", "patch"} <= granted["apps", "deployments"]
    assert granted["", "events"] == {"create", "patch"}
    (webhook,) = documents[kinds.index("MutatingWebhookConfiguration")]["webhooks"]
    assert webhook["clientConfig"]["service"]["path"] == "/mutate-webapp-my-domain-v1-guestbook"


async def test_guestbook_with_its_declared_permissions(
    guestbook: Any, client: Client, eventually: Callable[..., Any]
) -> None:
    operator, kind = guestbook.operator, guestbook.Guestbook
    operator.settings.development = True
    operator.settings.probe_port = 0
    recorder = PermissionRecorder(operator)
    stop = asyncio.Event()
    servers: list[HTTPServer] = []

    class Nothing:
        needs_leader = False

        async def run(self, stop: asyncio.Event) -> None: ...

    def look(manager: Any, _: Any) -> Nothing:
        servers.extend(each for each in manager.runnables if isinstance(each, HTTPServer))
        return Nothing()

    task = asyncio.create_task(operator.run(recorder.wrap(client), stop=stop, runnables=[look]))

    async def ready() -> bool:
        if task.done():
            task.result()
        if not servers:
            return False
        await servers[0].wait_until_started()
        url = f"http://127.0.0.1:{servers[0].port}/readyz"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status == 200

    try:
        await eventually(ready)

        def made(name: str) -> Any:
            spec = guestbook.GuestbookSpec(size=2, config_map_name=f"{name}-conf")
            return kind(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)

        with pytest.raises(Invalid, match="must not be admin or root"):
            await client.create(made("admin"))
        first = await client.create(made("visitors"))
        assert first.spec.type == "Name"

        async def synced() -> Any:
            found = await client.get(kind, "visitors", namespace="default")
            return found.status is not None and found.status.active

        assert await eventually(synced) == "visitors"
        deployment = await client.get(Deployment, "visitors", namespace="default")
        assert deployment.spec is not None
        assert deployment.spec.replicas == 2
        await client.delete(ConfigMap, "visitors-conf", namespace="default")

        async def healed() -> bool:
            names = [each.metadata.name async for each in client.list(ConfigMap, namespace="default")]
            return "visitors-conf" in names

        await eventually(healed)
    finally:
        stop.set()
        await task
    outside = (
        "customresourcedefinitions",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    )
    assert [use for use in recorder.missing() if use.resource not in outside] == []
