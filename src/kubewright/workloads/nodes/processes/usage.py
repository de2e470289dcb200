"""`ProcessMetrics`: CPU and memory of the processes of containers, for `kubectl top` and autoscaling."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from kubewright.api.core.v1 import Pod
from kubewright.api.selectors.label_selectors import Selector
from kubewright.api.values.quantity import Quantity
from kubewright.workloads.pod_metrics import MetricsSource, Usage

from .container_process import ContainerProcess
from .process_tree import children_of

if TYPE_CHECKING:
    from .runtime import ProcessRuntime

MEASURED_SECONDS: Final = 1.0
"""Shortest interval over which CPU usage is computed."""


class _Sample(NamedTuple):
    time: float
    cpu: float
    """Seconds of CPU since the start."""


class ProcessMetrics:
    """A `MetricsSource` with measured usage; custom and external metrics come from another source."""

    def __init__(self, runtime: ProcessRuntime, others: MetricsSource) -> None:
        self._runtime = runtime
        self._others = others
        self._samples: WeakKeyDictionary[ContainerProcess, tuple[_Sample, _Sample]] = WeakKeyDictionary()
        """The last two samples of each process."""

    async def containers(self, pod: Pod) -> dict[str, Usage]:
        """Return the usage of the containers of a pod, by name."""
        found: dict[str, Usage] = {}
        for name, process in self._runtime.processes_of(pod.metadata.uid or "").items():
            if process.supervisor_pid and not process.ended.is_set():
                found[name] = self._usage(process)
        return found

    def _usage(self, process: ContainerProcess) -> Usage:
        cpu, memory = descendant_usage(process.supervisor_pid)
        now = asyncio.get_running_loop().time()
        start = _Sample(process.started_at, 0.0)
        before, last = self._samples.get(process, (start, start))
        if now - last.time >= MEASURED_SECONDS:
            before, last = last, _Sample(now, cpu)
            self._samples[process] = (before, last)
        measured = last if last.time > before.time else _Sample(max(now, before.time + 0.001), cpu)
        rate = max(0.0, measured.cpu - before.cpu) / (measured.time - before.time)
        return {"cpu": Quantity(f"{round(rate * 1e9)}n"), "memory": Quantity(f"{memory // 1024}Ki")}

    async def pod_metric(self, pod: Pod, name: str, selector: Selector) -> Quantity | None:
        """Return the value of a custom metric of a pod; `None` if it is not known."""
        return await self._others.pod_metric(pod, name, selector)

    async def object_metric(
        self, kind: str, name: str, namespace: str, metric: str, selector: Selector, *, api_version: str = ""
    ) -> Quantity:
        """Return the value of a custom metric of an object; raises `MetricNotFound`."""
        return await self._others.object_metric(
            kind, name, namespace, metric, selector, api_version=api_version
        )

    async def external_metric(self, namespace: str, name: str, selector: Selector) -> list[Quantity]:
        """Return the values of an external metric; raises `MetricNotFound`."""
        return await self._others.external_metric(namespace, name, selector)


def descendant_usage(ancestor: int) -> tuple[float, int]:
    """Return seconds of CPU and resident bytes of the descendants of a process; zeros without /proc."""
    cpu, pages = 0.0, 0
    ticks, page_size = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    parents = [ancestor]
    while parents:
        for child in children_of(parents.pop()):
            parents.append(child)
            with contextlib.suppress(OSError, IndexError):
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                # Own time and that of children that have ended.
                cpu += sum(int(each) for each in fields[11:15]) / ticks
                pages += int(fields[21])
    return cpu, pages * page_size
