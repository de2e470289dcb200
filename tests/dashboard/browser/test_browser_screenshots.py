"""Pictures of docs/dashboard.md; `make screenshots` takes them again."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.apps.v1 import Deployment
from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.client import patches

from .conftest import Demo, OpenView, View
from .shop import Shop

DIRECTORY = os.environ.get("KUBEWRIGHT_SCREENSHOTS", "")
pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.skipif(not DIRECTORY, reason="takes pictures only for `make screenshots`"),
]
DARK = {"overview", "tree", "reconciles"}
"""Pictures that the documentation shows in the theme of the reader; the others are light."""
SHOP = "#/object/store.example.com/v1/shops/default"


async def _save(view: View, name: str) -> None:
    if name.endswith("-dark") and name.removesuffix("-dark") not in DARK:
        return
    # The transition of the last change, and the removal of the focus ring, take a moment.
    await view.page.mouse.move(0, 0)
    await view.page.evaluate("document.querySelector('.content').scrollTo(0, 0)")
    await view.page.wait_for_timeout(500)
    target = Path(DIRECTORY) / f"dashboard-{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    await view.page.screenshot(path=str(target), animations="disabled")


async def _prepare(demo: Demo) -> None:
    await demo.create_shop("checkout", replicas=3)
    await demo.create_shop("search")
    await demo.create_shop("wishlist", replicas=1)
    await demo.change("search", image="registry.example.com/shop:404")
    await demo.change("wishlist", backend="Unreachable")
    rbac = "rbac.authorization.k8s.io"
    for name, verbs, user in (
        ("shop-viewer", ["get", "list", "watch"], "jane"),
        ("shop-editor", ["*"], "deploy-bot"),
    ):
        role: dict[str, Any] = {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": "default"},
        }
        role["rules"] = [
            {"apiGroups": ["store.example.com"], "resources": ["shops"], "verbs": verbs},
            {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        ]
        binding: dict[str, Any] = {
            **role,
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": "default"},
        }
        del binding["rules"]
        binding["roleRef"] = {"apiGroup": rbac, "kind": "Role", "name": name}
        binding["subjects"] = [{"kind": "User", "apiGroup": rbac, "name": user}]
        for each in (role, binding):
            await demo.client.create(Unstructured(each))


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_pictures(open_view: OpenView, demo: Demo, theme: str) -> None:
    if theme == "light":
        await _prepare(demo)
    suffix = "" if theme == "light" else "-dark"
    async with open_view(color_scheme=theme, width=1280, height=800) as view:
        view.expected_codes |= {409, 422}
        await view.page.locator(".attention").wait_for()
        await view.page.locator(".event-object", has_text="wishlist").first.wait_for()
        await _save(view, f"overview{suffix}")

        await view.page.locator(".finding a", has_text="wishlist").first.click()
        await view.page.locator(".span-detail").wait_for()
        await _save(view, f"story{suffix}")

        await view.open("#/objects/core/v1/pods")
        await view.page.locator(".vtable-row", has_text="ImagePullBackOff").wait_for()
        await _save(view, f"objects{suffix}")

        await view.open(f"{SHOP}/search")
        await view.page.locator('.node[data-health="InProgress"]', has_text="Pod").first.wait_for()
        await _save(view, f"tree{suffix}")

        await view.open(f"{SHOP}/checkout?tab=history")
        await view.page.locator(".history-item").first.wait_for()
        await demo.change("checkout", backend="Unreachable")
        await asyncio.sleep(1.5)
        await demo.change("checkout", backend="Available")
        await asyncio.sleep(1.5)
        await view.page.locator(".history-item", has_text="changed").nth(1).click()
        await view.page.locator(".diff-added").first.wait_for()
        await _save(view, f"history{suffix}")
        await view.open(f"{SHOP}/checkout?tab=conditions")
        await view.page.locator(".segment-False").first.wait_for()
        await _save(view, f"conditions{suffix}")

        await view.open("#/object/apps/v1/deployments/default/cart?tab=fields")
        await view.page.locator(".field-owner").first.wait_for()
        await _save(view, f"fields{suffix}")

        await view.open("#/object/apps/v1/deployments/default/cart?tab=yaml")
        line = view.page.locator(".cm-line", has_text="replicas: 2").first
        await line.click()
        await view.page.keyboard.press("Home")
        await view.page.keyboard.press("Shift+End")
        await view.page.keyboard.type("replicas: 5")
        await view.page.get_by_role("button", name="Review changes").click()
        await view.page.locator(".conflict-table").wait_for()
        await _save(view, f"conflict{suffix}")
        await view.page.get_by_role("button", name="Take ownership").click()
        await view.page.get_by_role("button", name="Apply and take ownership").wait_for()
        await _save(view, f"review{suffix}")
        await view.page.get_by_role("button", name="Cancel").click()
        await view.page.get_by_role("button", name="Discard").click()
        await line.click()
        await view.page.keyboard.press("End")
        await view.page.keyboard.press("Enter")
        await view.page.keyboard.press("Control+Space")
        await view.page.locator(".cm-completionInfo").wait_for()
        await _save(view, f"editor{suffix}")

        await view.open(f"{SHOP}/checkout?tab=details")
        await view.page.locator(".view-bar").first.wait_for()
        await _save(view, f"details{suffix}")

        await view.open("#/object/apps/v1/deployments/default/checkout")
        await view.page.get_by_role("button", name="Restart").click()
        await view.page.locator(".diff-added", has_text="restartedAt").wait_for()
        await _save(view, f"action{suffix}")
        await view.page.get_by_role("button", name="Cancel").click()

        await view.open("#/reconciles")
        await demo.change("cart", replicas=3)
        await demo.client.delete(Deployment, "cart", namespace="default")
        await view.page.locator(".span-table tr:has(.chip-danger) .row-button").first.press("Enter")
        await view.page.locator(".span-detail .traceback").wait_for()
        await view.page.wait_for_timeout(3000)
        await _save(view, f"reconciles{suffix}")
        await demo.change("cart", replicas=2)

        await demo.change("cart", backend="Contested")
        await view.open("#/reconciles?object=cart&window=10")
        await view.page.locator(".banner-warning").first.wait_for()
        await view.page.wait_for_timeout(2000)
        await _save(view, f"fight{suffix}")
        await demo.change("cart", backend="Available")

        with suppress(APIError):
            change = patches.merge_patch({"spec": {"currency": "JPY"}})
            await demo.client.patch(Shop, "cart", change, namespace="default")
        await view.open("#/webhooks")
        await view.page.locator(".span-table tr", has_text="Rejected").first.click()
        await view.page.locator(".span-detail .diff").wait_for()
        await _save(view, f"webhooks{suffix}")

        await view.open("#/schema/store.example.com/v1/Shop")
        await view.page.locator(".schema-field").first.wait_for()
        await _save(view, f"schema{suffix}")

        await view.open(
            "#/access?tab=why&ask=1&user=jane&verb=delete&resource=shops&group=store.example.com&namespace=default"
        )
        await view.page.locator(".decision").wait_for()
        await _save(view, f"why{suffix}")
    async with open_view(f"{SHOP}/checkout", color_scheme=theme, width=390, height=800) as view:
        await view.page.locator(".node").first.wait_for()
        await _save(view, f"phone{suffix}")
