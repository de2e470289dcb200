"""Ten thousand objects in a table."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubewright.api.core.v1 import ConfigMap, Namespace
from kubewright.api.meta import ObjectMeta
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.client import Client, patches

from .conftest import Demo, OpenView

pytestmark = pytest.mark.asyncio(loop_scope="package")

COUNT = 10_000
NAMESPACE = "many"
FRAMES = 60
SCROLL = """async () => {
    const table = document.querySelector('.vtable');
    let rows = 0;
    for (let step = 1; step <= 60; step++) {
        table.scrollTop = (table.scrollHeight - table.clientHeight) * step / 60;
        await new Promise(requestAnimationFrame);
        rows = Math.max(rows, document.querySelectorAll('.vtable-row').length);
    }
    return rows;
}"""


async def _cpu_seconds(session: Any) -> float:
    """Return the CPU time of the page, which does not depend on the load of the machine."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


async def test_ten_thousand_rows_scroll_smoothly_and_stay_live(open_view: OpenView, demo: Demo) -> None:
    await demo.client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    client = Client.from_transport(InProcessTransport(demo.server.plane.server))
    names = [f"object-{number:05}" for number in range(COUNT)]

    async def create(part: list[str]) -> None:
        for name in part:
            await client.create(
                ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data={"a": "1"})
            )

    await asyncio.gather(*(create(names[start::16]) for start in range(16)))
    async with open_view(f"#/objects/core/v1/configmaps?namespace={NAMESPACE}") as view:
        await view.page.locator(".live-live").wait_for()
        await view.page.get_by_test_id("row-count").get_by_text("10,0").wait_for(timeout=180_000)
        session = await view.page.context.new_cdp_session(view.page)
        await session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = await _cpu_seconds(session)
        assert await view.page.evaluate(SCROLL) < 100
        milliseconds = (await _cpu_seconds(session) - before) / FRAMES * 1000
        # CPU per frame, without a GPU; each frame shows other rows. Drawing all rows takes seconds.
        assert milliseconds < 250, milliseconds
        await view.page.locator(".vtable-row", has_text="object-09999").wait_for()

        for count in (2, 3, 4):
            change = patches.merge_patch({"data": {f"key-{count}": "x"}})
            write = demo.client.patch(ConfigMap, "object-09999", change, namespace=NAMESPACE)
            shown = f".vtable-row:has-text('object-09999') >> text='{count}'"
            await view.streams(write, shown, path="/configmaps")

        await view.type_filter("object-04242")
        await view.count(".vtable-row", 1)
