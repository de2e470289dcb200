"""`OperatorDashboard`: the dashboard in the process of an operator, with its spans."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.dashboard.server import Dashboard
from kubewright.manager.observability.trace_feed import TraceFeed, TraceSource
from kubewright.runnable import BaseRunnable

from .traces import TraceStore

if TYPE_CHECKING:
    from kubewright.client import Client


class OperatorDashboard(BaseRunnable):
    """Runs a dashboard with the spans of managers. A runnable of a manager; it also works alone.

    Spans are recorded from the start, so that a page that is opened later shows what happened before.
    """

    needs_leader = False
    group = "http"
    name = "dashboard"

    def __init__(
        self,
        client: Client,
        operators: Mapping[str, TraceSource],
        *,
        others: Sequence[TraceSource] = (),
        **options: Any,
    ) -> None:
        """`client` is not that of a manager, whose reads are cached. `operators` are managers by name.

        `others` are sources of spans without controllers. `options` are those of `Dashboard`.
        """
        self.traces = TraceStore()
        self.traces.available = True
        self.traces.operators = list(operators)
        self.dashboard = Dashboard(client, traces=self.traces, **options)
        self._feed = TraceFeed([*operators.values(), *others], self.traces.add)

    async def wait_until_started(self) -> None:
        """Wait until the port is open."""
        await self.dashboard.wait_until_started()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and record until `stop` is set."""
        feeding = asyncio.create_task(self._feed.run(stop))
        try:
            await self.dashboard.run(stop)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
