"""A copy of all objects of a kind, updated by list and watch."""

from __future__ import annotations

import asyncio

from bench.soak.kinds import Kind, Object
from bench.soak.report import Report
from bench.soak.server import API


class Copy:
    """Lists and watches one kind."""

    def __init__(self, api: API, report: Report, kind: Kind) -> None:
        self.api = api
        self.report = report
        self.kind = kind
        self.objects: dict[str, Object] = {}
        self._version = ""

    async def run(self) -> None:
        """List, then watch, repeatedly, until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self.report.add_error(f"watch of {self.kind.plural}: {type(error).__name__}: {error}")
                self._version = ""
                await asyncio.sleep(0.5)

    async def _list(self) -> None:
        listed = await self.api.must("GET", self.kind.path)
        head = {"apiVersion": self.kind.api_version, "kind": self.kind.name}
        self.objects = {item["metadata"]["name"]: {**head, **item} for item in listed["items"]}
        self._version = listed["metadata"]["resourceVersion"]

    async def _watch(self) -> None:
        query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=20&resourceVersion={self._version}"
        async for event in self.api.watch(f"{self.kind.path}?{query}"):
            obj = event["object"]
            if event["type"] == "ERROR":
                if obj.get("code") != 410:
                    self.report.add_error(f"watch of {self.kind.plural}: {obj}")
                self.report.expected[f"watch of {self.kind.plural} expired"] += 1
                self._version = ""
                return
            self.report.done["watch event"] += 1
            self._version = obj["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self.objects.pop(obj["metadata"]["name"], None)
            elif event["type"] != "BOOKMARK":
                self.objects[obj["metadata"]["name"]] = obj
