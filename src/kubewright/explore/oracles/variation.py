"""`Variation`: a run of a scenario with something that must not matter, and what it checks.

The steps of the scenario are done as in the reference run. Before each step that changes something
(`before_change`) and after the last one (`finish`), a variation can restart the operator, change objects, or
compare states; it can also end the steps early (`interrupted`). It reports what is wrong with `Probe.find`.
Its text identifies it in replay tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kubewright.explore.scenarios.steps import ClientSteps, StepKind, StepObjectT

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.patches import Patch
    from kubewright.client.wait import WaitPredicate

    from .probe import Probe


class Variation:
    """A variation that changes nothing; the others override its methods."""

    name = ""
    """Name of the check in findings, with which a scenario switches the variation off."""
    needs_objects = False
    """Whether it ends before a step that deletes an object, if the scenario leaves none to vary."""

    def __init__(self, target: str = "") -> None:
        """`target` is what is varied, such as the path of a field."""
        self.target = target
        self.applied: dict[str, Any] | None = None
        """The object of the previous step that changed something, if that was an apply."""
        self.is_holding = False
        """Whether an object does not exist yet, so that waits are left out."""
        self.interrupted = asyncio.Event()
        """Ends the steps of the scenario when it is set."""

    def __str__(self) -> str:
        return f"{self.name}:{self.target}" if self.target else self.name

    async def begin(self, probe: Probe) -> None:
        """Prepare the cluster before the operator starts."""

    async def before_change(self, probe: Probe, step: str) -> None:
        """Do something before a step that changes an object; `step` describes the previous one."""

    def holds(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object is not applied now."""
        return False

    async def before_apply(self, probe: Probe, obj: Mapping[str, Any]) -> None:
        """Do something before an object is applied."""

    async def finish(self, probe: Probe) -> None:
        """Do something after the last step, and check."""


class VariedSteps:
    """The steps of a scenario, with those of a variation between them."""

    def __init__(self, inner: ClientSteps, variation: Variation, probe: Probe) -> None:
        self._inner = inner
        self._variation = variation
        self._probe = probe
        self._last_change = ""

    @property
    def client(self) -> Client:
        """The client of the scenario."""
        return self._inner.client

    async def _before(self) -> None:
        if self._last_change:
            await self._variation.before_change(self._probe, self._last_change)

    def _after(self, applied: dict[str, Any] | None = None) -> None:
        self._last_change = self._inner.descriptions[-1]
        self._variation.applied = applied

    async def apply(self, obj: StepObjectT, *, namespace: str | None = None) -> StepObjectT:
        """Apply an object, unless the variation holds it."""
        data = as_dict(obj, namespace)
        if self._variation.holds(data):
            self._variation.is_holding = True
            return obj
        await self._before()
        await self._variation.before_apply(self._probe, data)
        result = await self._inner.apply(obj, namespace=namespace)
        self._after(data)
        return result

    async def patch(
        self, kind: StepKind, name: str, patch: dict[str, Any] | Patch, *, namespace: str | None = None
    ) -> None:
        """Patch an object."""
        await self._before()
        await self._inner.patch(kind, name, patch, namespace=namespace)
        self._after()

    async def delete(self, kind: StepKind, name: str, *, namespace: str | None = None) -> None:
        """Delete an object."""
        await self._before()
        if self._variation.needs_objects and not self._probe.leaves_objects:
            self._variation.interrupted.set()
            await asyncio.Event().wait()
        await self._inner.delete(kind, name, namespace=namespace)
        self._after()

    async def wait(
        self,
        kind: StepKind,
        name: str,
        *,
        namespace: str | None = None,
        condition: str | WaitPredicate | None = None,
        absent: bool | None = None,
        timeout: float | str = 300.0,
    ) -> None:
        """Wait, or settle if what is waited for may need an object that is held."""
        if self._variation.is_holding:
            await self._probe.settle()
            return
        await self._inner.wait(
            kind, name, namespace=namespace, condition=condition, absent=absent, timeout=timeout
        )

    async def advance(self, duration: float | str) -> None:
        """Let simulated time pass."""
        await self._inner.advance(duration)


def as_dict(obj: Any, namespace: str | None = None) -> dict[str, Any]:
    """Return an object of a step as a dict, with its kind and namespace."""
    from kubewright.client.patches import to_dict

    data = dict(obj) if isinstance(obj, Mapping) else dict(to_dict(obj))
    gvk = getattr(type(obj), "gvk", None)
    if gvk is not None:
        data.setdefault("apiVersion", gvk.api_version)
        data.setdefault("kind", gvk.kind)
    metadata = dict(data.get("metadata") or {})
    if namespace:
        metadata["namespace"] = namespace
    return {**data, "metadata": metadata}
