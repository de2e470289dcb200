"""Each view of the dashboard in a browser, with a running operator that is broken and healed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
import yaml

from kubewright.api.core.v1 import Container, Pod, PodSpec
from kubewright.api.meta import ObjectMeta
from kubewright.api.unstructured import Unstructured

from .conftest import Demo, OpenView, is_ready
from .shop import Shop

pytestmark = pytest.mark.asyncio(loop_scope="package")

SHOP = "#/object/store.example.com/v1/shops/default"
CART = "app.kubernetes.io/instance=cart"


async def test_overview_shows_kinds_health_and_warnings(open_view: OpenView, demo: Demo) -> None:
    async with open_view() as view:
        card = view.page.locator(".kind-card", has_text="Shop")
        await card.wait_for()
        await view.see("Workloads and core")
        await demo.client.create(_pod("unpullable", image="nginx:404"))
        await view.page.locator(".attention").get_by_text("Pod default/unpullable").first.wait_for()
        await view.see("Failed to pull image")
        await card.click()
        await view.page.wait_for_url("**#/objects/store.example.com/v1/shops")
        await demo.client.delete(Pod, "unpullable", namespace="default")


async def test_objects_are_live_filtered_and_opened_by_keyboard(open_view: OpenView, demo: Demo) -> None:
    async with open_view("#/objects/core/v1/pods") as view:
        grid = view.page.get_by_role("grid")
        await grid.get_by_role("columnheader", name="Ready").wait_for()
        await view.page.locator(".live-live").wait_for()
        for name in ("late-1", "late-2", "appears"):
            await view.streams(demo.client.create(_pod(name)), f"text={name}", path="/api/v1/pods")

        await view.type_filter("appear")
        await view.page.wait_for_url("**q=appear")
        await view.page.get_by_test_id("row-count").get_by_text(re.compile("^1 of ")).wait_for()
        await view.page.keyboard.press("Escape")
        await view.page.keyboard.press("j")
        await view.page.keyboard.press("Enter")
        await view.page.wait_for_url("**/object/core/v1/pods/default/appears")

        await view.open("#/objects/core/v1/pods?labels=app.kubernetes.io%2Finstance%3Dcart")
        await view.count(".vtable-row", 2)
        for name in ("late-1", "late-2", "appears"):
            await demo.client.delete(Pod, name, namespace="default")


async def test_a_kind_that_cannot_be_watched_is_listed(open_view: OpenView) -> None:
    async with open_view("#/objects/core/v1/componentstatuses") as view:
        await view.page.locator(".live-listed").wait_for()


async def test_an_invalid_selector_is_explained(open_view: OpenView) -> None:
    async with open_view("#/objects/core/v1/pods") as view:
        view.expected_codes.add(400)
        await view.open("#/objects/core/v1/pods?fields=nonsense%3D1")
        await view.see("field label not supported")


async def test_the_tree_shows_an_operator_that_breaks_and_heals(open_view: OpenView, demo: Demo) -> None:
    await demo.create_shop("heals")
    async with open_view(f"{SHOP}/heals") as view:
        await view.page.locator(".node", has_text="ReplicaSet").wait_for()
        await view.count(".node", 6)  # with Deployment, ConfigMap and two pods
        for _ in range(2):
            failed = '.node-focused[data-health="Failed"]'
            await view.streams(_broken(demo), failed, path="/api/tree")
            await view.see("The payment backend does not respond")
            healed = '.node-focused[data-health="Current"]'
            await view.streams(_healed(demo), healed, path="/api/tree")

        await demo.change("heals", replicas=4)
        await view.count(".node", 8)
        await demo.change("heals", replicas=9)
        await view.page.locator(".node-folded", has_text="9 objects, current").click()
        await view.count(".node", 13)
    await demo.client.delete(Shop, "heals", namespace="default")


async def _broken(demo: Demo) -> None:
    await demo.change("heals", backend="Unreachable")
    await demo.client.wait(
        Shop, "heals", namespace="default", until=lambda shop: not is_ready(shop), timeout=60
    )


async def _healed(demo: Demo) -> None:
    await demo.change("heals", backend="Available")
    await demo.client.wait(Shop, "heals", namespace="default", until=is_ready, timeout=60)


async def test_conditions_events_field_managers_and_history(open_view: OpenView, demo: Demo) -> None:
    async with open_view(f"{SHOP}/cart?tab=conditions") as view:
        await view.see("ServersReady", within=".condition-track")
        await view.page.keyboard.press("]")
        await view.see("Updated", within=".event-list")

        await view.open(f"{SHOP}/cart?tab=history")
        await view.see("first version")
        await demo.change("cart", replicas=3)
        await view.page.locator(".history-item", has_text="changed").first.wait_for()
        await view.page.locator(".history-item", has_text="changed").last.click()
        await view.page.locator(".diff-added", has_text="replicas: 3").wait_for()

        await view.open("#/object/apps/v1/deployments/default/cart?tab=fields")
        row = view.page.locator(".field-line", has_text="replicas: 3").first
        await row.wait_for()
        assert (await row.locator(".field-owner").all_inner_texts()) == ["shop/shop"]
    await _has_pods(demo, 3)
    await demo.change("cart", replicas=2)
    await _has_pods(demo, 2)


async def _has_pods(demo: Demo, count: int) -> None:
    """Wait until the shop of all tests has this number of pods."""
    async with asyncio.timeout(60):
        while len(await demo.client.list(Pod, namespace="default", labels=CART)) != count:
            await asyncio.sleep(0.05)


async def test_logs_are_followed(open_view: OpenView, demo: Demo) -> None:
    await demo.client.create(_pod("logger"))
    await demo.client.wait(Pod, "logger", namespace="default", until=_is_running, timeout=60)
    demo.server.pods.write_log("logger", "first line\n\x1b[31mred\x1b[0m second line\n")
    async with open_view("#/object/core/v1/pods/default/logger?tab=logs") as view:
        await view.see("red second line", within=".log-box")
        demo.server.pods.write_log("logger", "third line\n")
        await view.see("third line", within=".log-box")
        await view.page.get_by_label("Filter lines").fill("third")
        await view.count(".log-line", 1)
    await demo.client.delete(Pod, "logger", namespace="default")


async def test_a_command_runs_in_the_terminal(open_view: OpenView, demo: Demo) -> None:
    await demo.client.create(_pod("shell"))
    await demo.client.wait(Pod, "shell", namespace="default", until=_is_running, timeout=60)
    path = "#/object/core/v1/pods/default/shell?tab=terminal&command=echo+from+the+container"
    async with open_view(path) as view:
        await view.see("from the container", within=".xterm-rows")
        await view.see("The command ended")
        await view.open("#/object/core/v1/pods/default/shell?tab=terminal")
        await view.see("$", within=".xterm-rows")
        await view.page.keyboard.type("hostname")
        await view.page.keyboard.press("Enter")
        await view.page.locator(".xterm-rows > div", has_text=re.compile("^shell")).first.wait_for()
        await view.page.keyboard.type("printenv TERM")
        await view.page.keyboard.press("Enter")
        await view.page.locator(".xterm-rows > div", has_text=re.compile("^xterm-256color")).wait_for()
    await demo.client.delete(Pod, "shell", namespace="default")


async def test_a_port_is_forwarded(open_view: OpenView, demo: Demo) -> None:
    async def greet(stream: Any) -> None:
        await stream.receive()
        await stream.send(b"hello")

    demo.server.pods.on_port_forward(CART, greet, port=8080)
    pods = await demo.client.list(Pod, namespace="default", labels=CART)
    async with open_view(f"#/object/core/v1/pods/default/{next(iter(pods)).name}?tab=ports") as view:
        await view.page.get_by_role("button", name="Forward").first.click()
        # Another host name than that of the dashboard, so that a pod is not on its site.
        link = view.page.locator("a", has_text="localhost:")
        await link.wait_for()
        port = int((await link.inner_text()).strip().rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        assert await reader.read(10) == b"hello"
        writer.close()
        await view.page.get_by_role("button", name="Stop").click()
        await view.see("not forwarded")


async def test_reconciles_show_cause_calls_result_and_error(open_view: OpenView, demo: Demo) -> None:
    await demo.create_shop("traced")
    async with open_view("#/reconciles?object=traced&window=600") as view:
        await view.page.locator(".lane-label").first.wait_for()
        await view.see("Queue depth")
        await demo.change("traced", backend="Unreachable")
        row = view.page.locator(".span-table tr", has_text="Error").first
        await row.locator(".row-button").press("Enter")  # a click could hit a row that was added meanwhile
        detail = view.page.locator(".span-detail")
        await detail.get_by_text("payment backend of the shop is unreachable").first.wait_for()
        await detail.get_by_text("Traceback").wait_for()
        await detail.get_by_text("spec.backend").first.wait_for()
        assert "id=" in view.page.url

        await demo.change("traced", backend="Available")
        await view.open(f"{SHOP}/traced?tab=reconciles&window=600")
        await view.page.locator(".span-table tr", has_text="Success").first.wait_for()
        # The timeline is a canvas: each lane has a button, each reconcile a row.
        await view.page.locator(".lane-label[data-failures='1'], .lane-label").first.press("Enter")
        await view.page.locator(".span-detail").wait_for()
        await view.page.locator(".span-table tr", has_text="Shop traced created").last.click()
        await view.see("by Deployment traced", within=".span-detail")  # reconciles that its writes caused
    await demo.client.delete(Shop, "traced", namespace="default")


async def test_a_fight_between_two_controllers_is_reported(open_view: OpenView, demo: Demo) -> None:
    await demo.create_shop("contested", replicas=1)
    async with open_view("#/reconciles?object=contested&window=600") as view:
        await view.page.locator(".lane-label").first.wait_for()
        await demo.change("contested", backend="Contested")
        await view.see("both write deployments.apps default/contested", within=".banner")
    await demo.change("contested", backend="Available")
    await demo.client.delete(Shop, "contested", namespace="default")


async def test_webhook_calls_show_request_and_response(open_view: OpenView, demo: Demo) -> None:
    async with open_view("#/webhooks") as view:
        await view.page.locator(".span-table, .empty").first.wait_for()
        await demo.create_shop("hooked", replicas=0)
        await view.page.locator(".span-table tr", has_text="Patched").first.click()
        await view.see("/spec/currency", within=".span-detail")
        with pytest.raises(Exception, match="field is immutable"):
            await demo.change("hooked", currency="USD")
        await view.page.locator(".span-table tr", has_text="Rejected").first.click()
        await view.see("field is immutable; create another shop", within=".span-detail")
        await view.page.locator(".diff-added", has_text="currency: USD").wait_for()

        await view.open("#/webhooks?tab=webhooks")
        await view.see("CREATE, UPDATE shops.store.example.com")
    await demo.client.delete(Shop, "hooked", namespace="default")


async def test_schema_is_readable_with_an_example(open_view: OpenView) -> None:
    async with open_view("#/schema/store.example.com/v1/Shop") as view:
        await view.see("An online shop: its servers and their settings.")
        await view.see("≥ 0 · ≤ 20")
        await view.see("kind: Shop", within=".schema-side")
        await view.open("#/schema/apps/v1/Deployment?path=spec.template.spec.containers.image")
        await view.page.locator(".schema-target", has_text="image").first.wait_for()


async def test_examples_of_the_schema_are_accepted_by_the_server(open_view: OpenView, demo: Demo) -> None:
    async with open_view("#/schema/core/v1/Pod") as view:
        for group, version, kind in EXAMPLES:
            await view.open(f"#/schema/{group or 'core'}/{version}/{kind}")
            await view.see(f"kind: {kind}", within=".schema-side")
            text = await view.page.locator(".schema-side pre").inner_text()
            made = Unstructured(yaml.safe_load(text))
            await demo.client.with_dry_run().create(made)


EXAMPLES = (
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "Secret"),
    ("apps", "v1", "StatefulSet"),
    ("batch", "v1", "CronJob"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
    ("store.example.com", "v1", "Shop"),
)


async def test_access_explains_a_denied_request(open_view: OpenView, demo: Demo) -> None:
    api = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": api, "kind": "Role", "metadata": {"name": "reader", "namespace": "default"}}
    role["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    binding = {
        "apiVersion": api,
        "kind": "RoleBinding",
        "metadata": {"name": "reader", "namespace": "default"},
    }
    binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    binding["subjects"] = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]
    for each in (role, binding):
        await demo.client.create(Unstructured(each))
    async with open_view("#/access?subject=jane") as view:
        await view.see("Role reader")
        await view.open("#/access?tab=why")
        await view.page.get_by_label("User").fill("jane")
        await view.page.get_by_label("Verb").fill("delete")
        await view.page.get_by_label("Resource").fill("pods")
        await view.page.get_by_role("textbox", name="Namespace").fill("default")
        await view.page.get_by_role("button", name="Explain").click()
        await view.see("jane is not allowed to delete pods in default")
        await view.see("different verb")
        await view.see("kubectl create role delete-pods --namespace=default", within=".grant")


async def test_search_shortcuts_and_theme(open_view: OpenView) -> None:
    async with open_view(color_scheme="light") as view:
        await view.see("Workloads and core")
        await view.type_search("cart dep")
        await view.page.locator(
            "[role=option][aria-selected=true]", has_text="Deployment in default"
        ).wait_for()
        await view.page.keyboard.press("Enter")
        await view.page.wait_for_url("**/object/apps/v1/deployments/default/cart")
        await view.page.keyboard.press("?")
        await view.see("Search objects, kinds and pages", within="dialog")
        await view.page.keyboard.press("Escape")
        await view.count("dialog[open]", 0)
        await view.page.keyboard.press("t")
        await view.page.locator("html[data-theme=dark]").wait_for()
        async with asyncio.timeout(60):
            while not view.page.url.endswith("#/access"):
                await view.page.keyboard.press("g")  # the next key must follow within 1.2 s
                await view.page.keyboard.press("a")


async def test_search_is_repeated_until_the_index_is_synced(open_view: OpenView) -> None:
    async with open_view() as view:
        await view.see("Workloads and core")
        is_synced = False

        async def respond(route: Any) -> None:
            unsynced = {"total": 0, "truncated": False, "synced": False, "results": [], "kinds": []}
            await (route.continue_() if is_synced else route.fulfill(json=unsynced))

        await view.page.route("**/api/search?**", respond)
        await view.page.keyboard.press("Control+k")
        await view.page.locator("dialog").get_by_role("combobox").fill("cart dep")
        await view.see("The index is still being built", within="dialog")
        is_synced = True
        await view.see("Deployment in default", within="dialog")
        await view.count(".palette-message", 0)


@pytest.mark.parametrize(
    "path", ["", "#/objects", "#/objects/core/v1/pods", f"{SHOP}/cart", "#/reconciles", "#/access"]
)
async def test_views_fit_a_phone(open_view: OpenView, path: str) -> None:
    async with open_view(path, width=390, height=800) as view:
        await view.page.locator("main h1").wait_for()
        await view.loaded()
        width = (
            "document.querySelector('.content').scrollWidth - document.querySelector('.content').clientWidth"
        )
        assert await view.page.evaluate(width) <= 0
        await view.page.get_by_role("button", name="Menu").click()
        await view.page.locator("nav a", has_text="Schema").click()
        await view.page.wait_for_url("**#/schema")


async def test_controls_have_names_and_text_has_contrast(open_view: OpenView) -> None:
    for scheme in ("light", "dark"):
        async with open_view(f"{SHOP}/cart", color_scheme=scheme) as view:
            await view.page.locator(".node").first.wait_for()
            assert await view.page.evaluate(UNNAMED) == []
            assert await view.page.evaluate(LOW_CONTRAST) == []


UNNAMED = """() => {
    const isNamed = each => each.ariaLabel || each.innerText?.trim() || each.labels?.length || each.title;
    const controls = [...document.querySelectorAll('button, a, input, select')];
    return controls.filter(each => each.offsetParent && !isNamed(each)).map(each => each.outerHTML);
}"""
LOW_CONTRAST = """() => {
    const parse = text => text.match(/[\\d.]+/g).map(Number);
    const linear = each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) =>
        0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const background = element => {
        for (; element; element = element.parentElement) {
            const color = parse(getComputedStyle(element).backgroundColor);
            if (color.length === 3 || color[3] === 1) return color;
        }
        return [255, 255, 255];
    };
    const low = [];
    for (const element of document.querySelectorAll('main *, aside *')) {
        const own = [...element.childNodes].some(each => each.nodeType === 3 && each.data.trim());
        if (!own || !element.offsetParent || element.ariaHidden === 'true') continue;
        const colors = [parse(getComputedStyle(element).color), background(element)];
        const [dark, light] = colors.map(luminance).sort((x, y) => x - y);
        const ratio = (light + 0.05) / (dark + 0.05);
        if (ratio < 4.5) low.push([element.className, element.innerText, ratio]);
    }
    return low;
}"""


async def test_a_missing_object_says_what_to_do(open_view: OpenView) -> None:
    async with open_view(f"{SHOP}/none") as view:
        await view.see("none does not exist")
        await view.see("It may have been deleted")


def _pod(name: str, image: str = "nginx:1") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(containers=[Container(name="main", image=image)]),
    )


def _is_running(pod: Pod) -> bool:
    return bool(pod.status and pod.status.phase == "Running")


async def test_the_view_that_an_operator_declares_is_rendered_from_data(open_view: OpenView) -> None:
    async with open_view("#/objects/store.example.com/v1/shops") as view:
        await view.page.get_by_role("columnheader", name="Servers").wait_for()
        row = view.page.locator(".vtable-row", has_text="cart")
        await row.locator(".cell").last.get_by_text("2").wait_for()
        await view.open(f"{SHOP}/cart?tab=details")
        await view.page.locator(".facts").get_by_text("EUR").wait_for()
        check = view.page.locator("tr", has_text="Stalled")
        await check.get_by_text("False").wait_for()
        await view.count(".view-bar", 2)


async def test_a_node_of_the_tree_has_a_panel_and_the_tree_a_filter(open_view: OpenView) -> None:
    async with open_view(f"{SHOP}/cart") as view:
        node = view.page.locator(".node", has_text="Deployment")
        await node.get_by_text("2/2").wait_for()
        await node.click()
        panel = view.page.locator(".tree-panel")
        await panel.get_by_text("1 objects, 0 not current").wait_for()
        await view.page.get_by_label("Filter the tree").fill("configmap")
        await view.count(".node:not(.node-dimmed)", 1)
        await panel.get_by_role("link", name="Open").click()
        await view.page.wait_for_url("**/object/apps/v1/deployments/default/cart")
