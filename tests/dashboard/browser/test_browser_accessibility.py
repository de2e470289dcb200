"""axe: no serious finding on any page and dialog, on a desktop and a phone, in both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubewright.explore.reports.html import html_of as html_of_exploration
from kubewright.explore.reports.model import ExplorationReport, ViolationReport
from kubewright.rehearse.plans.html import html_of as html_of_plan
from kubewright.rehearse.plans.model import Plan, PlannedChange
from kubewright.rehearse.snapshot import ObjectName

from .conftest import Demo, OpenView, View

AXE = Path(__file__).parents[3] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed; run `npm ci` in dashboard/"),
]

SHOP = "#/object/store.example.com/v1/shops/default/cart"
DEPLOYMENT = "#/object/apps/v1/deployments/default/cart"
PAGES = (
    "",
    "#/objects",
    "#/objects/core/v1/pods",
    "#/objects/core/v1/limitranges",
    "#/health/Failed",
    "#/reconciles",
    f"{SHOP}?tab=tree",
    f"{SHOP}?tab=conditions",
    f"{SHOP}?tab=events",
    f"{SHOP}?tab=yaml",
    f"{SHOP}?tab=fields",
    f"{SHOP}?tab=history",
    f"{SHOP}?tab=reconciles",
    f"{DEPLOYMENT}?tab=pod-logs",
    "#/object/core/v1/configmaps/default/cart-settings?tab=data",
    "#/webhooks",
    "#/webhooks?tab=webhooks",
    "#/webhooks?tab=policies",
    "#/schema",
    "#/schema/store.example.com/v1/Shop",
    "#/access",
    "#/access?tab=why&ask=1&user=jane&verb=delete&resource=pods&namespace=default",
    "#/activity",
    "#/create",
    "#/nothing",
)
RUN = """async () => {
    const options = {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice']};
    const found = (await axe.run(document, options)).violations;
    const text = node => `${node.html.slice(0, 160)} ${node.any[0]?.message || ''}`;
    return found
        .filter(each => ['serious', 'critical'].includes(each.impact))
        .map(each => [each.id, each.nodes.slice(0, 3).map(text)]);
}"""


async def check(view: View, name: str) -> list[Any]:
    if not await view.page.evaluate("Boolean(window.axe)"):
        await view.page.evaluate(AXE.read_text())
    return [(name, *each) for each in await view.page.evaluate(RUN)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_pages_and_dialogs_are_accessible(
    open_view: OpenView, demo: Demo, scheme: str, width: int
) -> None:
    found: list[Any] = []
    # Animations are reduced: a colour that is half blended has no contrast.
    options = {"color_scheme": scheme, "reduced_motion": "reduce"}
    async with open_view(width=width, **options) as view:
        view.expected_codes |= {404}
        for path in PAGES:
            await view.open(path)
            await view.page.locator("main").first.wait_for()
            await view.loaded()
            found += await check(view, path)
        for path, button in (
            (DEPLOYMENT, "Scale"),
            (DEPLOYMENT, "Delete"),
            ("#/create", "Review"),
        ):
            await view.open(path)
            await view.loaded()
            await view.page.locator("main").get_by_role("button", name=button).click()
            await view.page.locator("dialog[open] .action-command").wait_for()
            await view.page.locator(".dialog-actions .button:last-child:enabled").wait_for()
            found += await check(view, f"{path} {button}")
            await view.page.keyboard.press("Escape")
            await view.count("dialog[open]", 0)
        await view.open("#/reconciles")
        await view.page.locator(".span-table .row-button").first.click()
        await view.page.locator(".span-detail").wait_for()
        found += await check(view, "details of a reconcile")
        await view.page.keyboard.press("?")
        await view.page.locator("dialog[open]").wait_for()
        found += await check(view, "shortcuts")
        await view.page.keyboard.press("Escape")
        await view.type_search("cart")
        await view.page.locator("[role=option]").first.wait_for()
        found += await check(view, "search")
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_of_reports_are_accessible(chromium: Any, tmp_path: Path, scheme: str) -> None:
    violation = ViolationReport(
        scenario="create", source="shop.py:1", rule="converges", problems=["two pods"], faults=["crash"]
    )
    report = ExplorationReport(operator="shop", scenarios=["create"], violations=[violation])
    change = PlannedChange(
        name=ObjectName("apps", "Deployment", "default", "web"), verb="change", disruption="restarts a pod"
    )
    plan = Plan(operator="shop", source="staging", objects=1, kubernetes_version="1.37", changes=[change])
    pages = {"explore": html_of_exploration(report), "plan": html_of_plan(plan)}
    found = []
    for name, text in pages.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text)
        for width in (1280, 390):
            options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
            context = await chromium.new_context(**options)
            page = await context.new_page()
            await page.goto(path.as_uri())
            await page.evaluate(AXE.read_text())
            found += [(name, width, *each) for each in await page.evaluate(RUN)]
            await context.close()
    assert found == []
