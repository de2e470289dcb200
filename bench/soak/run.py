"""One soak run: start the server, apply the load, compare the final state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bench.controlplane import control_plane
from bench.soak.churn import Churn
from bench.soak.copies import Copy
from bench.soak.kinds import CONFIG_MAPS, DEFINITIONS, KINDS, NAMESPACE, Object, definition
from bench.soak.report import Report
from bench.soak.server import API, HOOKS, Webhooks
from bench.soak.worker import COUNTERS, Worker

WARM_UP = 0.3
"""Share of the run after which memory may not grow."""


async def soak(
    seconds: float, *, workers: int = 32, store: str = "memory:", seed: int = 1, progress: bool = False
) -> Report:
    """Start a control plane, apply the load and return the report."""
    report = Report(seconds=seconds)
    hooks = Webhooks()
    async with hooks.serve(), control_plane("--store", store) as (server, _, _):
        api = API(server)
        await _prepare(api, hooks)
        begun = time.monotonic()

        def stopped() -> bool:
            return time.monotonic() - begun >= seconds

        working = [Worker(api, report, number, seed) for number in range(workers)]
        copies = [Copy(api, report, kind) for kind in dict.fromkeys(KINDS)]
        watching = [asyncio.create_task(copy.run()) for copy in copies]
        jobs = [asyncio.create_task(worker.work(stopped)) for worker in working]
        jobs.append(asyncio.create_task(Churn(api, report, hooks, stopped).run()))
        jobs.append(asyncio.create_task(_measure(server.process.rss, report, stopped, seconds, progress)))
        try:
            await asyncio.gather(*jobs)
            report.cpu = server.process.cpu()
            await _compare(api, report, working, copies)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
    return report


async def _prepare(api: API, hooks: Webhooks) -> None:
    await api.must("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await api.must("POST", DEFINITIONS, definition("gears", "Gear"))
    for kind, path in (("Mutating", "mutate"), ("Validating", "validate")):
        configuration = hooks.configuration(f"{kind}WebhookConfiguration", "lasting", path=path)
        await api.must("POST", f"{HOOKS}/{kind.lower()}webhookconfigurations", configuration)
    for name in COUNTERS:
        await api.must("POST", CONFIG_MAPS.path, CONFIG_MAPS.make(name, 0))


async def _measure(
    rss: Callable[[], float], report: Report, stopped: Callable[[], bool], seconds: float, progress: bool
) -> None:
    begun = time.monotonic()
    while not stopped():
        await asyncio.sleep(min(1.0, seconds / 20))
        if time.monotonic() - begun < seconds * WARM_UP:
            report.warm = len(report.memory) + 1
        report.memory.append(rss())
        if progress and len(report.memory) % 30 == 0:
            print(
                f"{len(report.memory):5} s {sum(report.done.values()):9,} operations {rss():7.1f} MB",
                flush=True,
            )


async def _compare(api: API, report: Report, working: list[Worker], copies: list[Copy]) -> None:
    """Compare the stored objects with the acknowledged writes and with the copies of the watches."""
    for copy in copies:
        kind = copy.kind
        listed = await api.must("GET", kind.path)
        head = {"apiVersion": kind.api_version, "kind": kind.name}
        there: dict[str, Object] = {item["metadata"]["name"]: {**head, **item} for item in listed["items"]}
        report.compared += len(there)
        wanted = {name: obj for worker in working for (of, name), obj in worker.objects.items() if of is kind}
        mine = {name: obj for name, obj in there.items() if "worker" in obj["metadata"].get("labels", {})}
        _differ(report, f"{kind.plural}, stored and acknowledged", mine, wanted)
        for _ in range(1200):
            if copy.objects == there:
                break
            await asyncio.sleep(0.05)
        _differ(report, f"{kind.plural}, watched and stored", copy.objects, there)
        if kind is CONFIG_MAPS:
            for name in COUNTERS:
                counted = sum(worker.counted[name] for worker in working)
                if there[name]["data"]["number"] != str(counted):
                    report.add_error(f"{name}: {there[name]['data']}, expected {counted}")


def _differ(report: Report, what: str, have: dict[str, Object], want: dict[str, Object]) -> None:
    for name in sorted(have.keys() | want.keys()):
        if have.get(name) != want.get(name):
            report.add_error(f"{what}: {name}: {have.get(name)} instead of {want.get(name)}")
