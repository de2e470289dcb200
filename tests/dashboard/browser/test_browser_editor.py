"""The YAML editor: completion, validation, dry run, server-side apply, conflicts and replacement."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.meta import ObjectMeta
from kubewright.api.unstructured import Unstructured

from .conftest import Demo, OpenView, View
from .shop import Shop

pytestmark = pytest.mark.asyncio(loop_scope="package")

SHOP = "#/object/store.example.com/v1/shops/default"


async def _open_editor(view: View) -> Any:
    content = view.page.locator(".cm-content")
    await content.wait_for()
    return content


async def _replace_line(view: View, line: str, text: str) -> None:
    """Replace a line of the editor that contains a text."""
    await view.page.locator(".cm-line", has_text=line).first.click()
    await view.page.keyboard.press("Home")
    await view.page.keyboard.press("Shift+End")
    await view.page.keyboard.type(text)


async def _see_error(view: View, text: str) -> None:
    """Point at the marker of an error until its text is visible; the editor checks changes with a delay."""
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    async with asyncio.timeout(60):
        while True:
            await view.page.mouse.move(0, 0)
            await view.page.locator(".cm-lint-marker-error").first.hover()
            with suppress(PlaywrightTimeout):
                await view.see(text, within="body", timeout=2000)
                return


async def test_an_edit_is_reviewed_and_applied(open_view: OpenView, demo: Demo) -> None:
    # The field manager of the dashboard owns the field, so that its change causes no conflict.
    applied = {"apiVersion": "store.example.com/v1", "kind": "Shop", "spec": {"replicas": 1}}
    applied["metadata"] = {"name": "edited", "namespace": "default"}
    await demo.client.apply(Unstructured(applied), field_manager="kubewright-dashboard")
    async with open_view(f"{SHOP}/edited?tab=yaml") as view:
        await _open_editor(view)
        await _replace_line(view, "replicas: 1", "replicas: 2")
        await view.see("Edited")
        await view.page.keyboard.press("Control+s")
        await view.page.locator("dialog .diff-added", has_text="replicas: 2").wait_for()
        assert await view.page.locator("dialog .diff-added").count() == 1
        stored = await demo.client.get(Shop, "edited", namespace="default")
        assert stored.spec.replicas == 1  # the dry run writes nothing
        await view.page.get_by_role("button", name="Apply", exact=True).click()
        await view.page.locator(".toast", has_text="edited was applied").wait_for()
        stored = await demo.client.get(Shop, "edited", namespace="default")
        assert stored.spec.replicas == 2
        managers = {each.manager: each.operation for each in stored.metadata.managed_fields or []}
        assert managers["kubewright-dashboard"] == "Apply"
    await demo.client.delete(Shop, "edited", namespace="default")


async def test_a_conflict_names_the_owner_and_can_be_forced(open_view: OpenView, demo: Demo) -> None:
    await demo.create_shop("disputed", replicas=1)
    path = "#/object/apps/v1/deployments/default/disputed?tab=yaml"
    async with open_view(path) as view:
        view.expected_codes.add(409)
        await _open_editor(view)
        await _replace_line(view, "replicas: 1", "replicas: 0")
        await view.page.get_by_role("button", name="Review changes").click()
        await view.see("Other managers own fields that you changed", within="dialog")
        table = view.page.locator(".conflict-table")
        assert await table.locator("td").all_inner_texts() == ["spec.replicas", "shop/shop"]
        deployment = await demo.client.get(Deployment, "disputed", namespace="default")
        assert deployment.spec is not None
        assert deployment.spec.replicas == 1

        await view.page.get_by_role("button", name="Take ownership").click()
        await view.page.get_by_role("button", name="Apply and take ownership").click()
        await view.page.locator(".toast", has_text="disputed was applied").wait_for()
        # The operator owns the field again after its next reconcile: the history shows both writes.
        await view.open("#/object/apps/v1/deployments/default/disputed?tab=history")
        await view.page.locator(".history-item", has_text="kubewright-dashboard").first.wait_for()
    await demo.client.delete(Shop, "disputed", namespace="default")


async def test_errors_of_the_schema_are_shown_while_typing(open_view: OpenView) -> None:
    async with open_view(f"{SHOP}/cart?tab=yaml") as view:
        await _open_editor(view)
        await _replace_line(view, "replicas: ", "replicas: 99")
        await view.see("1 error")
        assert await view.page.get_by_role("button", name="Review changes").is_disabled()
        await _see_error(view, "spec.replicas: must be at most 20")
        await _replace_line(view, "replicas: 99", "replicsa: 2")
        await _see_error(view, "unknown field spec.replicsa")
        await view.page.get_by_role("button", name="Discard").click()
        await view.page.locator(".cm-line", has_text="replicas: 2").wait_for()


async def test_fields_and_values_are_completed_from_the_schema(open_view: OpenView) -> None:
    async with open_view("#/object/apps/v1/deployments/default/cart?tab=yaml") as view:
        await _open_editor(view)
        await view.page.locator(".cm-line", has_text="replicas: ").first.click()
        await view.page.keyboard.press("End")
        await view.page.keyboard.press("Enter")
        await view.page.keyboard.type("minR")
        option = view.page.locator(".cm-tooltip-autocomplete li[aria-selected]")
        await option.get_by_text("minReadySeconds").click()
        await view.page.locator(".cm-line", has_text="minReadySeconds: ").wait_for()
        await view.open(f"{SHOP}/cart?tab=yaml")
        await view.page.locator(".cm-line", has_text="currency: ").first.click()
        await view.page.keyboard.press("End")
        await view.page.keyboard.press("Control+Backspace")
        await view.page.keyboard.type("J")
        await option.get_by_text("JPY").wait_for()


async def test_fields_of_others_are_removed_by_replacing(open_view: OpenView, demo: Demo) -> None:
    data = {"keep": "1", "remove": "2"}
    await demo.client.create(ConfigMap(metadata=ObjectMeta(name="replaced", namespace="default"), data=data))
    async with open_view("#/object/core/v1/configmaps/default/replaced?tab=yaml") as view:
        await _open_editor(view)
        await view.page.locator(".cm-line", has_text="remove: ").click()
        await view.page.keyboard.press("Home")
        await view.page.keyboard.press("Shift+ArrowDown")
        await view.page.keyboard.press("Delete")
        await view.page.keyboard.press("Control+s")
        await view.see("data.remove", within="dialog")
        await view.page.get_by_role("button", name="Replace the object instead").click()
        await view.page.get_by_role("button", name="Replace", exact=True).click()
        await view.page.locator(".toast", has_text="replaced was replaced").wait_for()
    stored = await demo.client.get(ConfigMap, "replaced", namespace="default")
    assert stored.data == {"keep": "1"}


async def test_a_change_of_another_client_is_announced(open_view: OpenView, demo: Demo) -> None:
    made = ConfigMap(metadata=ObjectMeta(name="moving", namespace="default"), data={"a": "1", "b": "1"})
    await demo.client.create(made)
    async with open_view("#/object/core/v1/configmaps/default/moving?tab=yaml") as view:
        view.expected_codes.add(409)
        await _open_editor(view)
        await _replace_line(view, 'a: "1"', 'a: "2"')
        change = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "moving"}, "data": {"b": "2"}}
        await demo.client.apply(Unstructured(change), namespace="default", field_manager="other", force=True)
        await view.see("The object has changed since you started to edit")
        await view.page.get_by_role("button", name="Review changes").click()
        await view.page.get_by_role("button", name="Take ownership").click()
        await view.page.get_by_role("button", name="Apply and take ownership").click()
        await view.page.locator(".toast", has_text="moving was applied").wait_for()
    stored = await demo.client.get(ConfigMap, "moving", namespace="default")
    assert stored.data == {"a": "2", "b": "2"}  # the change of the other client remains


async def test_an_object_is_deleted_after_confirmation(open_view: OpenView, demo: Demo) -> None:
    await demo.client.create(ConfigMap(metadata=ObjectMeta(name="deleted", namespace="default")))
    async with open_view("#/object/core/v1/configmaps/default/deleted") as view:
        await view.page.get_by_role("button", name="Delete").click()
        await view.page.locator(".dialog-actions").get_by_role("button", name="Delete").click()
        await view.page.wait_for_url("**#/objects/core/v1/configmaps")
    names = [each.name for each in await demo.client.list(ConfigMap, namespace="default")]
    assert "deleted" not in names
