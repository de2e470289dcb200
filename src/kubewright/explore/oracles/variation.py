"""`Variation`: a run of a scenario with something that must not matter, and what it checks.

The steps of the scenario are done as in the reference run. Before each step that changes something
(`before_change`) and after the last one (`finish`), a variation can restart the operator, change objects, or
compare states; it reports what is wrong with `Probe.find`. Its text identifies it in replay tokens.
"""

from __future__ import annotations

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

    def __init__(self, target: str = "") -> None:
        """`target` is what is varied, such as the path of a field."""
        self.target = target

    def __str__(self) -> str:
        return f"{self.name}:{self.target}" if self.target else self.name

    async def begin(self, probe: Probe) -> None:
        """Prepare the cluster before the operator starts."""

    async def before_change(self, probe: Probe, step: str) -> None:
        """Do something before a step that changes an object; `step` describes the previous one."""

    def holds(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object is not applied now; waits are left out from then on."""
        return False

    async def finish(self, probe: Probe) -> None:
        """Do something after the last step, and check."""


class VariedSteps:
    """The steps of a scenario, with those of a variation between them."""

    def __init__(self, inner: ClientSteps, variation: Variation, probe: Probe) -> None:
        self._inner = inner
        self._variation = variation
        self._probe = probe
        self._last_change = ""
        self._is_holding = False

    @property
    def client(self) -> Client:
        """The client of the scenario."""
        return self._inner.client

    async def _before(self) -> None:
        if self._last_change:
            await self._variation.before_change(self._probe, self._last_change)

    def _after(self) -> None:
        self._last_change = self._inner.descriptions[-1]

    async def apply(self, obj: StepObjectT, *, namespace: str | None = None) -> StepObjectT:
        """Apply an object, unless the variation holds it."""
        data = as_dict(obj, namespace)
        if self._variation.holds(data):
            self._is_holding = True
            return obj
        await self._before()
        result = await self._inner.apply(obj, namespace=namespace)
        self._after()
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
        if self._is_holding:
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
