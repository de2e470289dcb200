"""The page states only what it knows: failures are kept, unreadable is a state, old data is called old."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.dashboard.test_object_evidence import span

from kubewright.api.errors import AlreadyExists
from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client
from kubewright.dashboard import Dashboard
from kubewright.dashboard.operators.traces import TraceStore

from .conftest import Demo, OpenView
from .shop import Shop

pytestmark = pytest.mark.asyncio(loop_scope="package")

RBAC = "rbac.authorization.k8s.io"


@asynccontextmanager
async def serving(dashboard: Dashboard) -> AsyncIterator[Dashboard]:
    await dashboard.start()
    try:
        yield dashboard
    finally:
        await dashboard.stop()


async def test_a_failure_is_shown_after_thousands_of_other_reconciles(
    open_view: OpenView, demo: Demo
) -> None:
    store = TraceStore()
    store.available = True
    store.since = 1.0
    store.add("reconcile", span(1, "broken", error="ConnectionError: no backend", retry=900.0))
    for number in range(2, 1200):
        store.add("reconcile", span(number, f"busy-{number % 5}"))
    async with (
        serving(Dashboard(demo.server.client(), traces=store)) as dashboard,
        open_view("#/reconciles?errors=1", dashboard=dashboard) as view,
    ):
        await view.see("default/broken", within=".span-table")
        await view.open("#/reconciles")
        row = view.page.locator(".evidence", has_text="Complete since")
        await row.wait_for()
        # The page keeps it, too, while healthy reconciles arrive.
        for number in range(1200, 3000):
            store.add("reconcile", span(number, f"busy-{number % 5}"))
        await view.open("#/?namespace=default")
        finding = view.page.locator(".finding[data-type=reconcile]")
        await finding.get_by_text("ConnectionError: no backend").wait_for()
        await finding.get_by_text("next retry").wait_for()
        await finding.locator("a").first.click()
        await view.page.locator(".span-detail").get_by_text("ConnectionError: no backend").first.wait_for()


async def test_unreadable_kinds_are_never_healthy_or_missing(open_view: OpenView, demo: Demo) -> None:
    rule = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"]}
    metadata = {"name": "mary", "namespace": "default"}
    subjects = [{"kind": "User", "name": "mary", "apiGroup": RBAC}]
    reference = {"kind": "Role", "name": "mary", "apiGroup": RBAC}
    binding = {"roleRef": reference, "subjects": subjects}
    for kind, fields in (("Role", {"rules": [rule]}), ("RoleBinding", binding)):
        body: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **fields}
        with suppress(AlreadyExists):
            await demo.client.create(Unstructured(body))
    transport = InProcessTransport(demo.server.plane.server, User("mary", ("system:authenticated",)))
    async with (
        serving(Dashboard(Client.from_transport(transport))) as dashboard,
        open_view(dashboard=dashboard) as view,
    ):
        view.expected_codes |= {403}
        view.errors.clear()  # requests of the sign-in are denied, too
        await view.see("Nothing found in the readable kinds in default")
        await view.see("whether their objects are healthy is unknown")
        await view.see("Events are not readable")
        assert "namespace=default" in view.page.url
        await view.page.locator(".coverage summary").click()
        await (
            view.page.locator(".coverage li", has_text="Deployment:").get_by_role("link", name="Why").click()
        )
        await view.see("mary is not allowed to list deployments.apps")

        await view.open("#/objects")
        locked = view.page.locator(".kind-link", has_text="Secret").get_by_text("not readable")
        await locked.wait_for()
        await view.open("#/access")
        await view.see("Your permissions in default")
        await view.see("ClusterRole, Role, ClusterRoleBinding, RoleBinding are not readable")

        await view.open("#/object/core/v1/configmaps/default/cart-settings?namespace=default")
        await view.page.locator(".node", has_text="Shop (not readable)").wait_for()
        await view.open("#/objects/apps/v1/deployments?namespace=other")
        await view.see("explain why it is denied")


async def test_a_frozen_and_a_dead_server_are_reported(
    open_view: OpenView, demo: Demo, reserved_port: int
) -> None:
    config = str(demo.server.plane.kubeconfig)
    arguments = ("-m", "kubewright.cli", "dashboard", "--kubeconfig", config, "--port", str(reserved_port))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        address = ""
        while not address:
            line = (await process.stderr.readline()).decode()
            assert line, "the dashboard did not start"
            found = re.search(r"http://\S+", line)
            address = found.group() if found else ""
        async with open_view() as view:
            await view.page.goto(address)
            for path in ("#/objects/core/v1/pods", "#/schema"):
                url = urlsplit(address)
                await view.page.goto(f"{url.scheme}://{url.netloc}/{path}")
                await view.page.locator("main h1").wait_for()
                process.send_signal(signal.SIGSTOP)
                await view.see("The dashboard server does not respond", within=".connection")
                process.send_signal(signal.SIGCONT)
                await view.count(".connection", 0)
            process.kill()
            await process.wait()
            await view.see("start it again with the same", within=".connection")
            view.errors.clear()  # of the connection
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Relay:
    """Forwards connections to a port, until it is frozen."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._port)
        for source, target in ((reader, upstream_writer), (upstream_reader, writer)):
            self._tasks.add(asyncio.create_task(self._copy(source, target)))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._flowing.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()


async def test_an_api_server_that_does_not_respond_is_reported(open_view: OpenView, demo: Demo) -> None:
    config = demo.server.config
    assert config is not None
    async with Relay(urlsplit(config.server).port or 443) as relay:
        relayed = replace(config, server=f"https://127.0.0.1:{relay.port}")
        async with (
            Client.connect(relayed, metrics=False) as client,
            serving(Dashboard(client)) as dashboard,
            open_view("#/objects/store.example.com/v1/shops", dashboard=dashboard) as view,
        ):
            await view.page.locator(".live-live").wait_for()
            relay.freeze()
            await view.see("The API server does not respond", within=".connection")
            relay.thaw()
            await view.count(".connection", 0)
            view.expected_codes |= {502, 504}


async def test_unsaved_edits_survive_tabs_back_and_reload(open_view: OpenView, demo: Demo) -> None:
    await demo.create_shop("drafted", replicas=1)
    path = "#/object/store.example.com/v1/shops/default/drafted"
    async with open_view(f"{path}?tab=yaml") as view:
        line = view.page.locator(".cm-line", has_text="replicas: 1")
        await line.click()
        await view.page.keyboard.press("End")
        await view.page.keyboard.type("2")
        edited = view.page.locator(".cm-line", has_text="replicas: 12")
        await edited.wait_for()
        await view.page.locator("[data-tab=events]").click()
        await view.count(".cm-line", 0)
        await view.page.locator("[data-tab=yaml]").click()
        await edited.wait_for()
        await view.open("#/objects")
        await view.see("Every kind")
        await view.page.go_back()
        await edited.wait_for()
        await view.page.reload()
        await edited.wait_for()
        await view.see("Your unsaved edits of")
        await view.page.get_by_role("button", name="Discard them").click()
        await line.wait_for()
        await view.page.reload()
        await line.wait_for()
        await view.count(".banner", 0)
    await demo.client.delete(Shop, "drafted", namespace="default")


async def test_health_is_a_column_a_filter_and_an_order(open_view: OpenView, demo: Demo) -> None:
    await demo.create_shop("unwell", backend="Unreachable")
    async with open_view("#/objects/store.example.com/v1/shops") as view:
        row = view.page.locator(".vtable-row", has_text="unwell")
        await row.get_by_text("Failed").wait_for()
        await view.page.get_by_role("button", name="Health").click()
        await view.page.locator(".vtable-row").first.get_by_text("unwell").wait_for()
        await view.type_filter("health:failed")
        await view.count(".vtable-row", 1)
        assert "health%3Afailed" in view.page.url
        await view.page.get_by_label("Health").select_option("current")
        await view.page.wait_for_url("**health%3Acurrent**")
        await view.page.locator(".vtable-row", has_text="cart").wait_for()

        await view.open("#/")
        await view.page.locator("a.stat", has_text="Failed").click()
        await view.see("Shop default/unwell")
        await view.page.get_by_role("link", name="all shops").first.click()
        await view.count(".vtable-row", 1)

        # One namespace for all views, kept by links.
        await view.page.get_by_label("Namespace").select_option("kube-system")
        await view.see("No shops in kube-system")
        await view.page.locator("nav a", has_text="Overview").click()
        await view.page.wait_for_url("**#/?namespace=kube-system")
        await view.see("Nothing needs attention in kube-system")
    await demo.client.delete(Shop, "unwell", namespace="default")
