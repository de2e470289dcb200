"""Dashboard: CPU of its process per second, idle and with a page open on 10,000 objects that change.

`kubewright up` and `kubewright dashboard` run in processes of their own; only the second is measured. The
page is a client with what a browser keeps open: the event stream with overview and owner tree, and the watch
of a table of the changing kind. Changes are patches of labels and status, 100 per second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import aiohttp

from bench import Benchmark
from bench.cache import server
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client, merge_patch

OBJECTS = int(os.environ.get("BENCH_DASHBOARD_OBJECTS", "10000"))
CHANGES_PER_SECOND = 100
SECONDS = 5.0
NAMESPACE = "dashboard"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class DashboardProcess:
    """`kubewright dashboard` and its CPU time."""

    def __init__(self, kubeconfig: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "kubewright.cli", "dashboard", "--kubeconfig", kubeconfig],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.popen.stderr is not None
        self.address = ""
        for line in self.popen.stderr:
            if line.startswith("Dashboard: "):
                self.address = line.removeprefix("Dashboard: ").strip()
                break
        else:
            raise RuntimeError("kubewright dashboard did not start")
        threading.Thread(target=self.popen.stderr.read, daemon=True).start()

    def cpu(self) -> float:
        """CPU seconds so far."""
        # Clock id of another process's CPU clock on Linux; see clock_getcpuclockid(3).
        return time.clock_gettime((~self.popen.pid << 3) | 2)

    def rss(self) -> float:
        """Resident memory in MB."""
        with open(f"/proc/{self.popen.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def cpu_per_second(self, seconds: float = SECONDS) -> float:
        """CPU seconds per second from now on."""
        before, started = self.cpu(), time.monotonic()
        await asyncio.sleep(seconds)
        return (self.cpu() - before) / (time.monotonic() - started)


async def create_objects(client: Client) -> None:
    """Create the objects, half of them owned by the others."""
    await client.create(
        Unstructured({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    )
    numbers = iter(range(OBJECTS))

    async def work() -> None:
        owner: dict[str, Any] | None = None
        for number in numbers:
            metadata: dict[str, Any] = {"name": f"object-{number:05d}", "namespace": NAMESPACE}
            if owner is not None:
                metadata["ownerReferences"] = [owner]
            created = await client.create(
                Unstructured(
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
                )
            )
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": created.name, "uid": created.uid}
            owner = reference if owner is None else None

    await asyncio.gather(*(work() for _ in range(16)))


async def change_objects(client: Client, seconds: float) -> None:
    """Change objects at the given rate: every tenth change is one that the overview shows."""
    started = time.monotonic()
    for number in range(int(seconds * CHANGES_PER_SECOND)):
        name = f"object-{number % OBJECTS:05d}"
        if number % 10 == 0:
            await client.create(
                Unstructured(
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"new-{time.time_ns()}"}}
                ),
                namespace=NAMESPACE,
            )
        else:
            change = merge_patch({"metadata": {"labels": {"changed": str(time.time_ns())}}})
            await client.patch("configmaps", name, change, namespace=NAMESPACE)
        await asyncio.sleep(max(0.0, started + (number + 1) / CHANGES_PER_SECOND - time.monotonic()))


@contextlib.asynccontextmanager
async def open_page(dashboard: DashboardProcess) -> AsyncIterator[list[int]]:
    """Open the streams of a page; return the number of bytes received, per stream."""
    base = dashboard.address.partition("/?")[0]
    received = [0, 0]
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        async with session.get(dashboard.address) as response:
            found = re.search(r'<meta name="session" content="([^"]+)">', await response.text())
        assert found is not None
        session.headers["X-Kubewright-Dashboard"] = found.group(1)
        async with session.get(f"{base}/api/overview") as response:
            await response.read()
        table = f"{base}/k8s/api/v1/namespaces/{NAMESPACE}/configmaps"
        async with session.get(f"{table}?limit=500", headers={"Accept": TABLE}) as response:
            version = (await response.json())["metadata"]["resourceVersion"]
        streams = (
            (f"{base}/api/stream?overview=1&tree=,v1,ConfigMap,{NAMESPACE},object-00000", "*/*"),
            (f"{table}?watch=true&resourceVersion={version}", TABLE),
        )

        async def read(index: int, url: str, accept: str) -> None:
            async with session.get(url, headers={"Accept": accept}) as response:
                async for chunk in response.content.iter_any():
                    received[index] += len(chunk)

        tasks = [asyncio.create_task(read(index, *stream)) for index, stream in enumerate(streams)]
        await asyncio.sleep(1.0)
        try:
            yield received
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def measure_all(kubeconfig: str) -> dict[str, float]:
    """Return the figures in CPU seconds per second, CPU seconds and megabytes."""
    figures: dict[str, float] = {}
    async with Client.connect(kubeconfig, metrics=False) as client:
        await create_objects(client)
        dashboard = DashboardProcess(kubeconfig)
        try:
            figures["idle"] = await dashboard.cpu_per_second()
            before = dashboard.cpu()
            async with open_page(dashboard) as received:
                figures["first page"] = dashboard.cpu() - before
                figures["open"] = await dashboard.cpu_per_second()
                start = list(received)
                before = dashboard.cpu()
                await change_objects(client, SECONDS)
                # A busy machine needs longer for the changes: the cost is that of one second at full rate.
                figures["changing"] = (dashboard.cpu() - before) / SECONDS
                if received[0] <= start[0] or received[1] <= start[1]:
                    raise RuntimeError("the page received no changes")
                figures["memory"] = dashboard.rss()
        finally:
            dashboard.popen.terminate()
            dashboard.popen.wait()
    return figures


@cache
def figures() -> dict[str, float]:
    """Run the measurement once."""
    with server() as kubeconfig:
        return asyncio.run(measure_all(kubeconfig))


def benchmarks() -> list[Benchmark]:
    """The benchmarks of this topic."""
    thousands = f"{OBJECTS:,}"
    return [
        Benchmark(
            name="idle dashboard, per second",
            run=lambda: figures()["idle"],
            target_ms=2,
            self_timed=True,
        ),
        Benchmark(
            name=f"open page on {thousands} objects, per second",
            run=lambda: figures()["open"],
            target_ms=5,
            self_timed=True,
        ),
        Benchmark(
            name=f"the same with {CHANGES_PER_SECOND} changes/s, per second",
            run=lambda: figures()["changing"],
            target_ms=100,
            self_timed=True,
        ),
        Benchmark(
            name=f"first page on {thousands} objects",
            run=lambda: figures()["first page"],
            target_ms=2000,
            self_timed=True,
        ),
        Benchmark(
            name=f"memory of the dashboard with {thousands} objects",
            run=lambda: figures()["memory"],
            target_mb=150,
        ),
    ]
