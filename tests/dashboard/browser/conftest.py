"""Fixtures: a control plane with simulated nodes, an operator, its dashboard and headless Chromium.

They share one event loop and are started once for all tests of this directory. Each test has its own browser
context, which signs in with a new token; a test fails if the page writes an error to the console.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kubewright.api.meta import ObjectMeta
from kubewright.client import Client, patches
from kubewright.dashboard import ClusterName, Dashboard, OperatorDashboard
from kubewright.testing.operators import run_operator
from kubewright.testing.server import TestServer, start_test_server

from .shop import Shop, ShopSpec, operator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIMEOUT_MILLISECONDS = 60_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    reason = ""
    if CHROMIUM is None:
        reason = "Chromium is not installed; install it with `apt-get install chromium`"
    else:
        try:
            import playwright  # noqa: F401
        except ImportError:
            reason = "playwright is not installed; install it with `pip install 'kubewright[dev]'`"
    for item in items:
        if reason and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass
class Demo:
    """A cluster with an operator, and its dashboard."""

    server: TestServer
    client: Client
    dashboard: Dashboard

    async def create_shop(self, name: str, **spec: Any) -> None:
        """Create a shop, and wait until it is ready."""
        await self.client.create(
            Shop(metadata=ObjectMeta(name=name, namespace="default"), spec=ShopSpec(**spec))
        )
        if spec.get("backend", "Available") == "Available":
            await self.client.wait(Shop, name, namespace="default", until=is_ready, timeout=60)

    async def change(self, name: str, **spec: Any) -> None:
        """Change the spec of a shop."""
        await self.client.patch(Shop, name, patches.merge_patch({"spec": spec}), namespace="default")


def is_ready(shop: Shop) -> bool:
    conditions = (shop.status.conditions if shop.status else None) or []
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def demo() -> AsyncIterator[Demo]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(start_test_server("tls", None, nodes=2))
        client = server.client()
        manager = await stack.enter_async_context(run_operator(operator, client))
        cluster = ClusterName(server="https://127.0.0.1:6443", context="demo")
        shown = OperatorDashboard(server.client(), {"shop": manager}, cluster=cluster)
        stop = asyncio.Event()
        running = asyncio.create_task(shown.run(stop))
        await shown.wait_until_started()
        made = Demo(server, client, shown.dashboard)
        await made.create_shop("cart")
        yield made
        stop.set()
        await running


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def chromium() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=180_000)
        yield browser
        await browser.close()


class View:
    """A page of the dashboard in the browser."""

    def __init__(self, page: Any, dashboard: Dashboard) -> None:
        self.page = page
        self.dashboard = dashboard
        self.errors: list[str] = []
        self.expected_codes: set[int] = set()
        """HTTP codes of errors that the test causes; the browser logs them."""
        self.requests: list[str] = []
        """URLs of all requests of the page."""
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, type_: str, text: str) -> None:
        expected = any(f"status of {code} " in text for code in self.expected_codes)
        if type_ in ("error", "warning") and not expected:
            self.errors.append(text)

    async def sign_in(self, path: str = "") -> None:
        await self.page.goto(f"{self.dashboard.new_address()}{path}")

    async def open(self, path: str) -> None:
        """Open a deep link, such as `#/objects/core/v1/pods`."""
        await self.page.goto(f"{self.dashboard.url}/{path}")

    async def see(self, text: str, *, within: str = "main", timeout: float = TIMEOUT_MILLISECONDS) -> None:
        """Wait until a text is visible."""
        found = self.page.locator(within).get_by_text(text).first
        await found.wait_for(state="visible", timeout=timeout)

    async def count(self, selector: str, count: int) -> None:
        """Wait until this number of elements match a selector."""
        from playwright.async_api import expect

        await expect(self.page.locator(selector)).to_have_count(count, timeout=TIMEOUT_MILLISECONDS)

    async def streams(self, action: Awaitable[Any], selector: str, *, path: str) -> None:
        """Run an action, and wait until an element is visible.

        The page must not read `path` for it: the change comes from a watch or stream that is open already.
        """
        before = len(self.requests)
        await action
        await self.page.locator(selector).first.wait_for(state="visible", timeout=TIMEOUT_MILLISECONDS)
        reads = [url for url in self.requests[before:] if path in url and "watch=" not in url]
        assert reads == []

    async def loaded(self) -> None:
        """Wait until no part of the page is loading."""
        await self.count(".loading", 0)

    async def type_search(self, text: str) -> None:
        """Open the search and type a text."""
        await self.page.keyboard.press("Control+k")
        await self.page.locator("[role=combobox]:focus").wait_for()
        await self.page.keyboard.type(text)

    async def type_filter(self, text: str) -> None:
        """Move the focus to the filter of the list and type a text."""
        await self.page.keyboard.press("/")
        await self.page.locator("#filter:focus").wait_for()
        await self.page.keyboard.type(text)


OpenView = Callable[..., Any]


@pytest.fixture
def open_view(chromium: Any, demo: Demo) -> OpenView:
    """Return a context manager that opens a signed-in page; errors on its console fail the test."""

    @asynccontextmanager
    async def open_page(
        path: str = "",
        *,
        dashboard: Dashboard | None = None,
        width: int = 1280,
        height: int = 820,
        **options: Any,
    ) -> AsyncIterator[View]:
        context = await chromium.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        try:
            page = await context.new_page()
            view = View(page, dashboard or demo.dashboard)
            await view.sign_in(path)
            yield view
            assert view.errors == []
        finally:
            await context.close()

    return open_page
