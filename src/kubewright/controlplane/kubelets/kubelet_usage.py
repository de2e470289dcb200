"""Usage of nodes and pods as kubelets report it, for the API group metrics.k8s.io.

A kubelet serves counters of CPU time and gauges of memory at `/metrics/resource`. The CPU usage is the
increase between two samples, as in metrics-server; so it is not available before the second one. Samples are
taken every 15 seconds while clients read metrics, and for 5 minutes after the last one did.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from kubewright.api.values.quantity import Quantity
from kubewright.background import run_forever

logger = logging.getLogger(__name__)

INTERVAL = 15.0
IDLE: Final = 300.0
"""Seconds without a request after which sampling ends."""
_CPU, _MEMORY = "cpu_usage_seconds_total", "memory_working_set_bytes"
_LINE: Final = re.compile(r"^(node|container)_(\w+)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+(-?\d+))?\s*$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Container = tuple[str, str, str]
"""Namespace, pod and container; empty for the node itself."""
NODE: Final[Container] = ("", "", "")
Usage = dict[str, Quantity]


class _Point(NamedTuple):
    seconds: float
    value: float


class NodeUsage(NamedTuple):
    """Usage of a node and of its containers."""

    containers: dict[Container, Usage]
    window: float
    """Seconds between the samples."""

    @property
    def node(self) -> Usage | None:
        """Usage of the node."""
        return self.containers.get(NODE)

    def pod(self, namespace: str, name: str) -> dict[str, Usage]:
        """Return the usage of the containers of a pod, by name."""
        return {key[2]: usage for key, usage in self.containers.items() if key[:2] == (namespace, name)}


def parse_resource_metrics(text: str, now: float) -> Iterator[tuple[str, Container, float, float]]:
    """Yield metric, container, seconds and value of each usage; `now` is the time of values without one."""
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or found[2] not in (_CPU, _MEMORY):
            continue
        labels = dict(_LABEL.findall(found[3] or ""))
        key = (labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", ""))
        try:
            value = float(found[4])
        except ValueError:
            continue
        seconds = int(found[5]) / 1e3 if found[5] else now
        yield found[2], key if found[1] == "container" else NODE, seconds, value


class _Samples:
    """The last two values of each counter of a kubelet, and its gauges."""

    def __init__(self) -> None:
        self._times: dict[Container, list[_Point]] = {}
        self._memory: dict[Container, int] = {}

    def add(self, text: str, now: float) -> None:
        """Add a response; what is not in it is forgotten."""
        times: dict[Container, list[_Point]] = {}
        memory: dict[Container, int] = {}
        for metric, key, seconds, value in parse_resource_metrics(text, now):
            if metric == _MEMORY:
                memory[key] = int(value)
                continue
            points = self._times.get(key, [])
            if points and value < points[-1].value:
                points = []  # The container was restarted.
            if not points or seconds > points[-1].seconds:
                points = [*points[-1:], _Point(seconds, value)]
            times[key] = points
        self._times, self._memory = times, memory

    def usage(self) -> NodeUsage | None:
        """Return the usage between the last two samples; `None` if there is only one."""
        found: dict[Container, Usage] = {}
        window = 0.0
        for key, points in self._times.items():
            if len(points) == 2 and key in self._memory:
                seconds = points[1].seconds - points[0].seconds
                window = max(window, seconds)
                cores = (points[1].value - points[0].value) / seconds
                found[key] = {
                    "cpu": Quantity(f"{round(cores * 1e9)}n"),
                    "memory": Quantity(f"{self._memory[key] // 1024}Ki"),
                }
        return NodeUsage(found, window) if found else None


class KubeletUsage:
    """Samples the usage of nodes while it is read."""

    def __init__(self, fetch: Callable[[str], Awaitable[bytes]]) -> None:
        """`fetch` returns the body of `/metrics/resource` of a node; it raises `OSError`."""
        self._fetch = fetch
        self._samples: dict[str, _Samples] = {}
        self._requested: dict[str, float] = {}
        self._sampling: asyncio.Task[None] | None = None

    async def usage(self, node: str) -> NodeUsage | None:
        """Return the usage of a node; `None` if it is not available (yet)."""
        self._requested[node] = asyncio.get_running_loop().time()
        if node not in self._samples:
            await self._sample(node)
        if self._sampling is None or self._sampling.done():
            self._sampling = run_forever(self._run, name="kubelet usage")
        samples = self._samples.get(node)
        return samples.usage() if samples is not None else None

    async def stop(self) -> None:
        """End sampling."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._requested:
            await asyncio.sleep(INTERVAL)
            for node, seconds in list(self._requested.items()):
                if loop.time() - seconds > IDLE:
                    del self._requested[node]
                    self._samples.pop(node, None)
            await asyncio.gather(*(self._sample(node) for node in self._requested))

    async def _sample(self, node: str) -> None:
        try:
            text = (await self._fetch(node)).decode(errors="replace")
        except OSError as error:
            self._samples.pop(node, None)
            logger.warning("cannot read usage of node", extra={"node": node, "reason": str(error)})
            return
        self._samples.setdefault(node, _Samples()).add(text, asyncio.get_running_loop().time())
