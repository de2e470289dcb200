"""`RoundTrip`: a field of the spec that is changed and changed back ends in the same state.

Tried are the fields that the scenario changes, with their earlier values and others of the schema: a scale up
and down, a spec that fails and is repaired. Of other fields, booleans are switched and lists get other
elements; `explore_specs` tries all values of all fields. `CreateAgain` deletes an object and creates it again
with the same spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kubewright.explore.final_state import differences
from kubewright.explore.specs.spec_fields import REMOVED, FieldSchema, fields_of, get_field, values_for

from .probe import Probe, desired_of
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.final_state import Difference
    from kubewright.explore.state import ClusterState, StateObject

MAX_VALUES = 3
"""Values that are tried for each field."""
MAX_TEXT = 60


class RoundTrip(Variation):
    """Change one field of each object of a kind, and change it back."""

    name = "round-trip"
    needs_objects = True

    async def finish(self, probe: Probe) -> None:
        """Try the values of the field, one after the other."""
        kind, _, path = self.target.partition(" ")
        obj = next((each for each in probe.reconciled_objects() if kind_text(each) == kind), None)
        if obj is None or not await probe.settle():
            return
        field = next(each for each in spec_fields(probe, obj) if str(each) == path)
        current = get_field(obj.data, field.path)
        earlier = earlier_values(probe.cluster_state, obj, field)
        values = [*earlier, *(each for each in values_for(field, current) if each not in earlier)]
        for value in values[:MAX_VALUES]:
            before = probe.state()
            if not await probe.patch(obj, _change(field, current, None if value is REMOVED else value)):
                continue
            await probe.settle()
            if not await probe.patch(obj, _change(field, value, current)):
                return  # a transition that the API server does not allow
            after = probe.state

            def is_restored(before: Any = before, after: Any = after) -> bool:
                return not _beside_spec(obj, probe.differences(before, after()))

            await probe.settle(is_restored)
            found = _beside_spec(obj, probe.differences(before, probe.state()))
            if found:
                what = f"{path} of {obj} from {_shown(current)} to {_shown(value)} and back"
                probe.find(
                    self.name,
                    f"a change of {what} does not restore the state; compute all of it from the spec, and "
                    "remove what the spec no longer asks for",
                    found,
                )
                return


class CreateAgain(Variation):
    """Delete an object and create it again; with the target `quick`, before the operator is idle."""

    name = "create-again"
    needs_objects = True

    async def finish(self, probe: Probe) -> None:
        """Delete and create the custom resources of the scenario one after the other."""
        if not await probe.settle():
            return
        for obj in probe.reconciled_objects():
            before = probe.state()
            if not await self._replace(probe, obj):
                return

            def is_restored(before: Any = before) -> bool:
                return not self._found(probe, before)

            await probe.settle(is_restored)
            found = self._found(probe, before)
            if found:
                probe.find(
                    self.name,
                    f"{obj} was deleted and created again with the same spec, and the state is another one; "
                    "identify objects by their UID in memory and in external systems",
                    found,
                )
                return

    async def _replace(self, probe: Probe, obj: StateObject) -> bool:
        """Delete and create an object; return whether it was created again.

        In the quick form, the operator does not run in between, unless a finalizer waits for it.
        """
        is_quick = self.target == "quick" and not obj.finalizers
        processes = list(probe.run.cluster.processes) if is_quick else []
        for process in processes:
            probe.run.loop.pause(process)
        await probe.delete(obj)
        if not is_quick:
            await probe.settle()
        is_deleted = all(each.key != obj.key for each in probe.custom_objects())
        # An object that is not deleted is reported by the variation `deletion`.
        is_created = is_deleted and await probe.create(desired_of(obj))
        for process in processes:
            probe.run.loop.resume(process)
        return is_created

    def _found(self, probe: Probe, before: Any) -> list[Any]:
        """Return the differences; values of Secrets may be new for a new object."""
        found = differences(before, probe.state(), (*probe.tolerances, *probe.run.random))
        return [
            each for each in found if not (each.object.startswith("Secret ") and each.path.startswith("data"))
        ]


def round_trips(probe: Probe, state: ClusterState, objects: list[StateObject]) -> Iterator[RoundTrip]:
    """Return a round trip for each field of the spec of each kind that a user is likely to change."""
    seen: set[str] = set()
    for obj in objects:
        kind = kind_text(obj)
        if kind in seen:
            continue
        seen.add(kind)
        for field in spec_fields(probe, obj):
            is_declarative = field.schema.get("type") in ("boolean", "array") or field.schema.get("enum")
            if not is_declarative and not earlier_values(state, obj, field):
                continue
            if values_for(field, get_field(obj.data, field.path)):
                yield RoundTrip(f"{kind} {field}")


def earlier_values(state: ClusterState, obj: StateObject, field: FieldSchema) -> list[Any]:
    """Return other values that a field of an object had in the run, newest first."""
    found: list[Any] = []
    current = get_field(obj.data, field.path)
    for each in state.history(obj):
        value = get_field(each.data, field.path)
        if value != current and value is not None and value not in found:
            found.append(value)
    return found


def spec_fields(probe: Probe, obj: StateObject) -> list[FieldSchema]:
    """Return the fields of the spec of a custom resource."""
    return list(fields_of(spec_schema_of(probe.definitions(), obj.data) or {}))


def spec_schema_of(definitions: list[StateObject], obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of the spec of a custom resource; `None` for other kinds."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    for each in definitions:
        names = each.get("spec", "names", default={})
        if (each.get("spec", "group"), names.get("kind")) != (group, obj.get("kind")):
            continue
        for found in each.get("spec", "versions", default=()):
            if found.get("name") == version:
                schema = found.get("schema", {}).get("openAPIV3Schema", {}).get("properties", {}).get("spec")
                return schema or {}
    return None


def _beside_spec(obj: StateObject, found: list[Difference]) -> list[Difference]:
    """Return differences without those in the spec itself: empty parents of a field may remain."""
    return [each for each in found if not (each.object == str(obj) and each.path.startswith("spec"))]


def kind_text(obj: StateObject) -> str:
    """Return kind and group."""
    return f"{obj.key.kind}.{obj.key.group}"


def _change(field: FieldSchema, before: Any, value: Any) -> dict[str, Any]:
    """Return a merge patch that changes a field; `None` removes it."""
    result: Any = _replacing(before, value)
    for name in reversed(field.path):
        result = {name: result}
    patch: dict[str, Any] = result
    return patch


def _replacing(before: Any, value: Any) -> Any:
    """Return what replaces a value in a merge patch, which would keep the other keys of a map."""
    if not isinstance(value, Mapping) or not isinstance(before, Mapping):
        return value
    removed = dict.fromkeys(name for name in before if name not in value)
    return removed | {name: _replacing(before.get(name), item) for name, item in value.items()}


def _shown(value: Any) -> str:
    text = "no value" if value is None or value is REMOVED else repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."
