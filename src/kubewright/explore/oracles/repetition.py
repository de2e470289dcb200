"""What a user can repeat, or divide into two steps, without another result.

- `ApplyAgain` applies each object again, and sets and removes an annotation of it: nothing else changes
- `Split` applies an object with the required fields of its spec first, and then all of it: the state ends as
  if it had been created with all of it, also if the operator could not handle the incomplete spec
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .probe import Probe
from .round_trip import spec_schema_of
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.state import StateObject

ANNOTATION = "explore.kubewright.dev/touched"


class ApplyAgain(Variation):
    """Apply each object twice, and touch it."""

    name = "apply-again"

    async def before_change(self, probe: Probe, step: str) -> None:
        """Repeat the previous step."""
        await self._repeat(probe)

    async def finish(self, probe: Probe) -> None:
        """Repeat the last step."""
        await self._repeat(probe)

    async def _repeat(self, probe: Probe) -> None:
        applied, self.applied = self.applied, None
        if applied is None or probe.run.findings or not await probe.settle():
            return
        before = probe.state()
        if not await probe.create(applied):
            return
        metadata = applied["metadata"]
        what = f"{applied.get('kind')} {metadata.get('name')}"
        if not await self._is_same(probe, before, f"{what} was applied a second time"):
            return
        obj = next((each for each in probe.user_objects() if _is(each, applied)), None)
        if obj is None:
            return
        for value in ("true", None):
            if not await probe.patch(obj, {"metadata": {"annotations": {ANNOTATION: value}}}):
                return
            await probe.settle()
        await self._is_same(probe, before, f"an annotation of {what} was added and removed")

    async def _is_same(self, probe: Probe, before: Any, what: str) -> bool:
        await probe.settle(lambda: not self._found(probe, before))
        found = self._found(probe, before)
        if found:
            probe.find(
                self.name,
                f"{what}, and the state is another one; webhooks and reconcilers must not add to what is "
                "already there",
                found,
            )
        return not found

    def _found(self, probe: Probe, before: Any) -> list[Any]:
        """Return the differences; an empty map of annotations may remain."""
        found = probe.differences(before, probe.state())
        return [each for each in found if each.path != "metadata.annotations"]


class Split(Variation):
    """Create each custom resource with the required fields of its spec, and add the others later."""

    name = "split"

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self._split: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        """The incomplete and the complete form of objects."""

    async def before_apply(self, probe: Probe, obj: Mapping[str, Any]) -> None:
        """Apply the incomplete object first."""
        metadata = obj["metadata"]
        key = f"{obj.get('kind')} {metadata.get('namespace')}/{metadata.get('name')}"
        schema = spec_schema_of(probe.definitions(), obj)
        spec = obj.get("spec")
        if key in self._split or schema is None or not isinstance(spec, Mapping):
            return
        required = schema.get("required") or ()
        incomplete = {**obj, "spec": {name: value for name, value in spec.items() if name in required}}
        if incomplete["spec"] != dict(spec) and await probe.create(incomplete):
            self._split[key] = (incomplete, dict(obj))
            await probe.settle()

    async def finish(self, probe: Probe) -> None:
        """Compare with the reference run, without what counts changes of the spec."""
        if not self._split or not await probe.settle():
            return
        found = await probe.differences_from_reference()
        if not found or probe.is_time_driven:
            return  # more time has passed than in the reference run
        before = probe.state()
        for forms in self._split.values():
            for form in forms:
                if not await probe.create(form):
                    return
                await probe.settle()
        counts = {(each.object, each.path) for each in probe.differences(before, probe.state())}
        remaining = [each for each in found if (each.object, each.path) not in counts]
        if remaining:
            probe.find(
                self.name,
                "the objects were created with the required fields of their spec, and completed later, and "
                "the state is not that of the reference run; compute all of it from the current spec",
                remaining,
            )


def _is(obj: StateObject, data: Mapping[str, Any]) -> bool:
    metadata = data["metadata"]
    return (
        obj.key.kind == data.get("kind")
        and obj.name == metadata.get("name")
        and obj.namespace in ("", metadata.get("namespace") or "default")
    )
