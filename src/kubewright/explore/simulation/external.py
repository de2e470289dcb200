"""`ExternalFake`: a system outside of the cluster (DNS, a cloud, a database) with the same fault points.

    records = ExternalFake("dns")

    @operator.reconcile(Site)
    async def reconcile(site: Site, ctx: Context) -> None:
        await records.put(site.spec.host, site.spec.address)

Each call is a point `x` of the run: the process can be killed before or after it, the call can fail, time out
with or without its effect, or be slow. The data belongs to the run, not to the process: it survives restarts,
and every `ExternalFake` with the same name has the same data. It is part of the final state, and invariants
can read it with `records.items`. Outside of a run, calls work without faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kubewright.controller.controller import current_reconcile

from .loop import PROCESS
from .process_target import ProcessTarget

if TYPE_CHECKING:
    from kubewright.explore.faults import ErrorResponse
    from kubewright.explore.runs.trace import TraceEvent

    from .cluster import SimulatedCluster

T = TypeVar("T")

CALL_TIMEOUT = 30.0
"""Virtual seconds after which a lost call fails."""
MAX_SHOWN = 200
"""Bytes of a value that reports show."""
_active: ExternalSystems | None = None


class ExternalSystems:
    """The data of all external systems of a run, by name and key."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.data: dict[str, dict[str, Any]] = {}

    def activate(self) -> None:
        """Use this data for all `ExternalFake`s of the Python process."""
        global _active  # a Python process runs one simulated cluster at a time
        _active = self
        self.cluster.applications.activate()


def deactivate() -> None:
    """End the use of the data of a run."""
    global _active
    if _active is not None:
        _active.cluster.applications.deactivate()
    _active = None


class ExternalFake:
    """Key-value data of an external system."""

    def __init__(
        self, name: str, *, latency: float = 0.05, error: Callable[[str], Exception] = ConnectionError
    ) -> None:
        """`error` creates the exception of a failed call, as the real client would raise it."""
        self.name = name
        self.latency = latency
        self.error = error
        self._own: dict[str, Any] = {}

    @property
    def items(self) -> Mapping[str, Any]:
        """The current data, without a call."""
        return self._data()

    def _data(self) -> dict[str, Any]:
        return self._own if _active is None else _active.data.setdefault(self.name, {})

    async def get(self, key: str) -> Any:
        """Return a value, or `None`."""
        return await self.call("get", key, lambda data: data.get(key))

    async def list(self) -> dict[str, Any]:
        """Return all values."""
        return await self.call("list", "", dict)

    async def put(self, key: str, value: Any) -> None:
        """Set a value."""
        await self.call("put", key, lambda data: data.__setitem__(key, value), value=value)

    async def create(self, key: str, value: Any) -> bool:
        """Set a value if the key does not exist; return whether it was set."""

        def apply(data: dict[str, Any]) -> bool:
            if key in data:
                return False
            data[key] = value
            return True

        return await self.call("create", key, apply, value=value)

    async def delete(self, key: str) -> bool:
        """Delete a value; return whether it existed."""
        return await self.call("delete", key, lambda data: data.pop(key, None) is not None)

    async def call(
        self, operation: str, key: str, apply: Callable[[dict[str, Any]], T], *, value: Any = None
    ) -> T:
        """Do an operation on the data, with the fault that is planned for it.

        `value` is what is sent; reports show it, and what is returned.
        """
        if _active is None:
            return apply(self._data())
        cluster, process = _active.cluster, PROCESS.get()
        text = f"{operation} {self.name} {key}".rstrip()
        if process is None:
            cluster.record("request", "scenario", text)
            return apply(self._data())
        event = cluster.record("external", process.name, text)
        event.body = _shown(value)
        reconcile = current_reconcile.get()
        if reconcile is not None:
            event.reconcile = f"{reconcile.controller} {reconcile.request} {reconcile.id}"
        cluster.count_request("external")
        target = _CallTarget(self, process, event)
        target.process.schedule.begin_request(event)
        try:
            return await self._apply(operation, apply, target)
        finally:
            await target.process.schedule.end_request(event)

    async def _apply(self, operation: str, apply: Callable[[dict[str, Any]], T], target: _CallTarget) -> T:
        cluster, event = target.cluster, target.event
        fault = cluster.fault_at(event)
        if fault is not None:
            await fault.before(target)
        result = apply(self._data())
        event.status, event.ended = 200, cluster.loop.step
        event.body = event.body or _shown(result)
        cluster.changed_at = cluster.loop.now if operation not in ("get", "list") else cluster.changed_at
        if fault is not None:
            await fault.after(target)
        await asyncio.sleep(self.latency)
        return result


def _shown(value: Any) -> bytes:
    """Return a value as reports show it; without those that have no JSON form, which differ between runs."""
    if value is None:
        return b""
    try:
        text = msgspec.json.encode(value)
    except (TypeError, NotImplementedError):
        return type(value).__name__.encode()
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + b"..."


class _CallTarget(ProcessTarget):
    """A call of an external system."""

    def __init__(self, system: ExternalFake, process: Any, event: TraceEvent) -> None:
        super().__init__(process, event)
        self._system = system

    async def respond(self, error: ErrorResponse) -> None:
        """Fail the call."""
        raise self._system.error(f"{self._system.name}: injected by exploration")

    async def time_out(self) -> None:
        """Fail the call after a timeout."""
        await asyncio.sleep(CALL_TIMEOUT)
        raise self._system.error(f"{self._system.name}: timed out")
