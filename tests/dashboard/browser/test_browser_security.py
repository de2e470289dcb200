"""Sessions, and objects whose texts contain HTML and scripts."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.core.v1 import Container, Pod, PodSpec
from kubewright.api.meta import ObjectMeta
from kubewright.api.unstructured import Unstructured
from kubewright.dashboard import Dashboard

from .conftest import TIMEOUT_MILLISECONDS, Demo, OpenView

pytestmark = pytest.mark.asyncio(loop_scope="package")

HTML = "<img src=x onerror=\"window.__attacked='yes'\"><script>window.__attacked='yes'</script>"
ROLE = "<img src=x onerror=window.__attacked=1>"
VIEWS = (
    "",
    "#/objects/core/v1/configmaps",
    "#/objects/core/v1/pods",
    "#/objects/rbac.authorization.k8s.io/v1/clusterroles",
    "#/object/core/v1/configmaps/default/attack?tab=tree",
    "#/object/core/v1/configmaps/default/attack?tab=events",
    "#/object/core/v1/configmaps/default/attack?tab=yaml",
    "#/object/core/v1/configmaps/default/attack?tab=fields",
    "#/object/core/v1/configmaps/default/attack?tab=history",
    "#/object/core/v1/pods/default/attack?tab=logs",
    "#/object/core/v1/pods/default/attack?tab=conditions",
    "#/object/rbac.authorization.k8s.io/v1/clusterroles/_/%3Cimg%20src%3Dx%20onerror%3Dwindow.__attacked%3D1%3E",
    "#/object/store.example.com/v1/shops/default/%3Cimg%20src%3Dx%3E",
    "#/schema/attack.example.com/v1/Attack",
    "#/access?subject=attacker",
    "#/reconciles?object=%3Cscript%3E",
    "#/nothing/%3Cscript%3Ewindow.__attacked%3D1%3C%2Fscript%3E",
)


async def test_a_session_requires_a_token_that_works_once(chromium: Any, demo: Demo) -> None:
    address = demo.dashboard.new_address()
    context = await chromium.new_context()
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    try:
        page = await context.new_page()
        await page.goto(demo.dashboard.url)
        await page.get_by_text("The session has ended").wait_for()
        await page.goto(address)
        await page.get_by_role("heading", name="Overview").wait_for()
        assert page.url == f"{demo.dashboard.url}/"
        assert await page.evaluate("document.cookie") == ""
    finally:
        await context.close()
    other = await chromium.new_context()
    other.set_default_timeout(TIMEOUT_MILLISECONDS)
    try:
        page = await other.new_page()
        assert (await page.goto(address)).status == 401
    finally:
        await other.close()


async def test_a_page_says_that_its_session_has_ended(
    open_view: OpenView, demo: Demo, reserved_port: int
) -> None:
    first = Dashboard(demo.server.client(), port=reserved_port)
    await first.start()
    async with open_view(dashboard=first) as view:
        await view.see("Workloads and core")
        await first.stop()
        second = Dashboard(demo.server.client(), port=reserved_port)
        await second.start()
        try:
            await view.see("The session has ended")
        finally:
            await second.stop()
        view.errors.clear()  # of the connection


async def test_texts_of_objects_are_never_html(open_view: OpenView, demo: Demo) -> None:
    await _attack(demo)
    async with open_view() as view:
        dialogs: list[str] = []
        view.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for path in VIEWS:
            await view.open(path)
            await view.page.locator("main h1, main h3").first.wait_for()
            await view.loaded()
            assert await view.page.evaluate("window.__attacked") is None, path
            assert await view.page.locator("img[src=x], main script").count() == 0, path
        await view.open("#/object/core/v1/configmaps/default/attack?tab=events")
        await view.see(HTML, within=".event-list")  # as text
        await view.open("#/object/core/v1/pods/default/attack?tab=logs")
        await view.see(HTML, within=".log-box")
        await view.type_search("onerror")
        await view.page.locator("[role=option]", has_text=ROLE).first.wait_for()
        assert await view.page.evaluate("window.__attacked") is None
        assert dialogs == []


async def _attack(demo: Demo) -> None:
    client = demo.client
    annotations = {"example.com/attack": HTML}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"page": HTML}}
    config_map["metadata"] = {"name": "attack", "namespace": "default", "annotations": annotations}
    created = await client.create(Unstructured(config_map))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "attack", "namespace": "default"},
        "type": "Warning",
        "reason": HTML,
        "message": HTML,
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": "default",
            "name": "attack",
            "uid": created.uid,
        },
    }
    await client.create(Unstructured(event))
    logs = {"sim.kubewright.dev/logs": HTML}
    await client.create(
        Pod(
            metadata=ObjectMeta(name="attack", namespace="default", annotations=logs),
            spec=PodSpec(containers=[Container(name="main", image="nginx:1")]),
        )
    )
    await client.wait(
        Pod,
        "attack",
        namespace="default",
        until=lambda pod: bool(pod.status and pod.status.phase == "Running"),
    )
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": ROLE}}
    role["rules"] = [{"apiGroups": [""], "resources": [HTML], "verbs": [HTML]}]
    binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ROLE}}
    binding["roleRef"] = {"apiGroup": rbac, "kind": "ClusterRole", "name": ROLE}
    binding["subjects"] = [{"kind": "User", "apiGroup": rbac, "name": f"attacker {HTML}"}]
    schema = {
        "type": "object",
        "description": HTML,
        "properties": {"spec": {"type": "object", "description": HTML}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "attacks.attack.example.com"},
        "spec": {
            "group": "attack.example.com",
            "scope": "Namespaced",
            "names": {"plural": "attacks", "singular": "attack", "kind": "Attack", "listKind": "AttackList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    for each in (role, binding, definition):
        await client.create(Unstructured(each))


async def test_a_read_only_dashboard_offers_no_changes(open_view: OpenView, demo: Demo) -> None:
    dashboard = Dashboard(demo.server.client(), read_only=True)
    await dashboard.start()
    try:
        async with open_view(
            "#/object/store.example.com/v1/shops/default/cart?tab=yaml", dashboard=dashboard
        ) as view:
            await view.see("The dashboard is read-only.")
            await view.see("Read-only", within="aside")
            assert await view.page.get_by_role("button", name="Delete").count() == 0
            assert await view.page.get_by_role("button", name="Review changes").count() == 0
    finally:
        await dashboard.stop()
