"""Changes beside the workers: CRDs, webhooks, namespaces and owners are created, changed and deleted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable

from bench.soak.kinds import CONFIG_MAPS, DEFINITIONS, GROUP, NAMESPACE, Kind, Object, definition
from bench.soak.report import Report
from bench.soak.server import API, HOOKS, Webhooks

PAUSE = 0.25


class Churn:
    """Runs one loop per kind of change."""

    def __init__(self, api: API, report: Report, hooks: Webhooks, stopped: Callable[[], bool]) -> None:
        self.api = api
        self.report = report
        self.hooks = hooks
        self.stopped = stopped

    async def run(self) -> None:
        """Run all loops until stopped."""
        loops = (self.redefine, self.define, self.webhooks, self.namespaces, self.owners)
        await asyncio.gather(*(self._repeat(loop) for loop in loops))

    async def _repeat(self, loop: Callable[[int], AsyncIterator[None]]) -> None:
        for turn in itertools.count():
            if self.stopped():
                return
            try:
                async for _ in loop(turn):
                    await asyncio.sleep(PAUSE)
                self.report.done[loop.__name__] += 1
            except Exception as error:
                self.report.add_error(f"{loop.__name__}: {type(error).__name__}: {error}")
                await asyncio.sleep(PAUSE)

    async def _wait_until_deleted(self, path: str) -> None:
        for _ in range(3000):
            if (await self.api.ask("GET", path))[0] == 404:
                return
            await asyncio.sleep(0.02)
        self.report.add_error(f"{path}: is not deleted")

    async def redefine(self, turn: int) -> AsyncIterator[None]:
        """Change the schema and the columns of the kind that all workers use."""
        path = f"{DEFINITIONS}/gears.{GROUP}"
        live = await self.api.must("GET", path)
        live["spec"]["versions"] = definition("gears", "Gear", fields=turn % 4)["spec"]["versions"]
        status, response = await self.api.ask("PUT", path, live)
        if status == 409:
            self.report.expected["conflict"] += 1
        elif status != 200:
            self.report.add_error(f"redefine: {status} {response}")
        yield

    async def define(self, turn: int) -> AsyncIterator[None]:
        """Create a CRD, use it immediately, and delete it with its objects."""
        plural = f"temps{turn % 3}"
        await self.api.must("POST", DEFINITIONS, definition(plural, f"Temp{turn % 3}"))
        kind = Kind(f"{GROUP}/v1", f"Temp{turn % 3}", plural, lambda n: {"spec": {"teeth": n}}, lambda n: {})
        for number in range(5):
            made = await self.api.must("POST", kind.path, kind.make(f"t{number}", number))
            if made["spec"]["size"] != "small":
                self.report.add_error(f"{plural}: no default in {made}")
        yield
        await self.api.must("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")
        await self._wait_until_deleted(f"{DEFINITIONS}/{plural}.{GROUP}")
        if (await self.api.ask("GET", kind.path))[0] != 404:
            self.report.add_error(f"{plural}: still served")

    async def webhooks(self, turn: int) -> AsyncIterator[None]:
        """Create and delete a second webhook, and update the permanent one."""
        path = f"{HOOKS}/validatingwebhookconfigurations"
        further = self.hooks.configuration("ValidatingWebhookConfiguration", "further", path="allow")
        await self.api.must("POST", path, further)
        yield
        label = {"metadata": {"labels": {"turn": str(turn)}}}
        await self.api.must("PATCH", f"{path}/lasting", label, kind="merge")
        yield
        await self.api.must("DELETE", f"{path}/further")

    async def namespaces(self, turn: int) -> AsyncIterator[None]:
        """Delete a namespace with its content."""
        path = "/api/v1/namespaces"
        await self.api.must("POST", path, {"metadata": {"name": f"{NAMESPACE}-{turn}"}})
        for number in range(5):
            body = {"metadata": {"name": f"c{number}"}}
            await self.api.must("POST", f"{path}/{NAMESPACE}-{turn}/configmaps", body)
        yield
        await self.api.must("DELETE", f"{path}/{NAMESPACE}-{turn}")
        await self._wait_until_deleted(f"{path}/{NAMESPACE}-{turn}")

    async def owners(self, turn: int) -> AsyncIterator[None]:
        """Delete an owner with its dependents, in the foreground or in the background."""
        path = CONFIG_MAPS.path
        owner = await self.api.must("POST", path, CONFIG_MAPS.make(f"owner-{turn}", turn))
        reference: Object = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
        reference |= {"name": f"owner-{turn}", "uid": owner["metadata"]["uid"]}
        for number in range(3):
            child = CONFIG_MAPS.make(f"child-{turn}-{number}", number, ownerReferences=[reference])
            await self.api.must("POST", path, child)
        yield
        policy = ("Foreground", "Background")[turn % 2]
        await self.api.must("DELETE", f"{path}/owner-{turn}", {"propagationPolicy": policy})
        for name in (f"owner-{turn}", *(f"child-{turn}-{number}" for number in range(3))):
            await self._wait_until_deleted(f"{path}/{name}")
