"""`Instances`: another object of the same kind does not change what belongs to the first one.

A copy is created with another name in the same namespace, or with the same name in another namespace; then it
is changed in every field, and deleted. Names of children that do not include all of name and namespace,
prefixes that match the children of others, and memory that objects share are found in this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubewright.explore.final_state import NormalisedState
from kubewright.explore.specs.spec_fields import REMOVED, get_field, values_for, with_field
from kubewright.explore.state import is_of_user

from .deletion import belongs_to
from .probe import NAMESPACE, Probe
from .round_trip import spec_fields
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.state import StateObject


class Instances(Variation):
    """Create a copy of each custom resource of the scenario; `target` is `name` or `namespace`."""

    name = "instances"
    needs_objects = True

    async def finish(self, probe: Probe) -> None:
        """Create, change and delete the copy of the last object of each kind."""
        if not await probe.settle():
            return
        newest = {each.key[:2]: each for each in probe.reconciled_objects()}
        for obj in newest.values():
            if self.target == "namespace" and not obj.namespace:
                continue
            if not await self._check(probe, obj):
                return

    async def _check(self, probe: Probe, obj: StateObject) -> bool:
        before = self._belonging(probe, obj)
        data: dict[str, Any] | None
        if self.target == "namespace":
            data = await probe.copy_to_namespace(obj)
        else:
            data = probe.copy_of(obj, name=f"{obj.name}-2")
            data = data if await probe.create(data) else None
        if data is None:
            return True
        if not await self._compare(probe, obj, before, "created"):
            return False
        other = next((each for each in probe.custom_objects() if _same_name(each, data)), None)
        if other is None:
            return True
        missing = self._missing(probe, obj, other)
        if missing and self.target == "name":
            probe.find(
                self.name,
                f"{other}, a copy of {obj}, has no {missing}; use names that include the namespace and the "
                "whole name of the object",
            )
            return False
        if not await self._reconcile_again(probe, obj, other):
            return False
        for field in spec_fields(probe, other):
            values = values_for(field, get_field(other.data, field.path))
            value = next((each for each in values if each is not REMOVED), None)
            if value is not None:
                changed = with_field({}, field.path, value)
                await probe.patch(other, changed)
        await probe.settle()
        probe.resync()
        if not await self._compare(probe, obj, before, "changed"):
            return False
        await probe.delete(other)
        return await self._compare(probe, obj, before, "deleted")

    async def _reconcile_again(self, probe: Probe, obj: StateObject, other: StateObject) -> bool:
        """Reconcile everything, and check that no object of the copy or the first one is replaced."""
        before = {
            each.key: each.uid
            for each in probe.cluster_state
            if not is_of_user(each) and (belongs_to(each, obj) or belongs_to(each, other))
        }
        probe.resync()
        await probe.settle()
        for each in probe.cluster_state:
            if before.get(each.key, each.uid) != each.uid:
                probe.find(
                    self.name,
                    f"with {other} beside {obj}, {each} was deleted and created again when both were "
                    "reconciled; identify children by owner, not by name",
                )
                return False
        return True

    async def _compare(self, probe: Probe, obj: StateObject, before: NormalisedState, what: str) -> bool:
        await probe.settle(lambda: not probe.differences(before, self._belonging(probe, obj, before)))
        found = probe.differences(before, self._belonging(probe, obj, before))
        if found:
            where = f"in the namespace {NAMESPACE}" if self.target == "namespace" else f"named {obj.name}-2"
            probe.find(
                self.name,
                f"a copy of {obj} {where} was {what}, which changes what belongs to {obj}; identify children "
                "by owner, not by name, and do not share memory between objects",
                found,
            )
        return not found

    def _belonging(
        self, probe: Probe, obj: StateObject, known: NormalisedState | None = None
    ) -> NormalisedState:
        """Return the part of the state that belongs to an object, or that is known to."""
        state = probe.state()
        if known is not None:
            return {key: value for key, value in state.items() if key in known}
        keys = {str(obj)}
        for each in probe.cluster_state:
            if not is_of_user(each) and belongs_to(each, obj):
                prefix = each.metadata.get("generateName")
                name = f"{prefix}*" if prefix else each.name
                keys.add(str(each.key._replace(name=name)))
        return {key: value for key, value in state.items() if key in keys}

    def _missing(self, probe: Probe, obj: StateObject, other: StateObject) -> str:
        """Return a kind of which only the first object owns one."""
        state = probe.cluster_state
        own = {each.key.kind for each in state.children_of(obj)}
        return ", ".join(sorted(own - {each.key.kind for each in state.children_of(other)}))


def _same_name(obj: StateObject, data: dict[str, Any]) -> bool:
    metadata = data["metadata"]
    return (
        obj.key.kind == data.get("kind")
        and obj.name == metadata.get("name")
        and obj.namespace == metadata.get("namespace", "")
    )
