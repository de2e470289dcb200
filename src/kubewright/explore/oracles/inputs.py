"""`Inputs`: what the operator reads from objects of the user may change, and may be created later.

`ChangedInput` changes the values of a ConfigMap or Secret, or of the spec of a custom resource that is not
reconciled, and restarts the idle operator: if that changes the
state, the operator does not watch the object. `LateInput` creates an object after all others: the state must
end as if it had been created first.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .probe import Probe, desired_of
from .restart import check_restart
from .variation import Variation, as_dict

if TYPE_CHECKING:
    from kubewright.explore.state import StateObject

_WITH_DATA = ("ConfigMap", "Secret")
_NOT_LATE = frozenset(("Namespace", "Node", "StorageClass", "PersistentVolume", "ServiceAccount"))


class ChangedInput(Variation):
    """Change each value of an object of the user that the operator reads, and restart the operator."""

    name = "input"
    needs_objects = True

    async def finish(self, probe: Probe) -> None:
        """Change all values, restart, and change them back."""
        obj = next((each for each in probe.user_objects() if str(each) == self.target), None)
        if obj is None or not await probe.settle():
            return
        before = probe.state()
        field = "data" if obj.key.kind in _WITH_DATA and not obj.key.group else "spec"
        values = obj.data.get(field) or {}
        changed = {name: _other(obj, value) for name, value in values.items()}
        if not await probe.patch(obj, {field: changed}):
            return
        if not await check_restart(probe, f"after a change of {obj}"):
            return
        await probe.patch(obj, {field: values})
        await probe.settle(lambda: not probe.differences(before, probe.state()))
        found = probe.differences(before, probe.state())
        if found:
            probe.find(self.name, f"a change of {obj} and back does not restore the state", found)


class LateInput(Variation):
    """Create an object of the user after all other steps."""

    name = "late"

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self._held: dict[str, Any] | None = None

    async def begin(self, probe: Probe) -> None:
        """Delete the object of the setup before the operator starts."""
        for obj in probe.user_objects():
            if str(obj) == self.target:
                self._held = desired_of(obj)
                self.is_holding = True
                await probe.delete(obj)

    def holds(self, obj: Mapping[str, Any]) -> bool:
        """Hold the object when it is first applied; later versions replace it."""
        if describe(obj) != self.target:
            return False
        self._held = dict(obj)
        return True

    async def finish(self, probe: Probe) -> None:
        """Create the object, and compare with the reference run."""
        if self._held is None or not await probe.settle():
            return
        if not await probe.create(self._held):
            return
        remaining = await probe.differences_from_reference()
        if remaining:
            probe.find(
                self.name,
                f"{self.target} was created after all other objects, and the state is not that of the "
                "reference run; watch it, or requeue until it exists",
                remaining,
            )


def inputs(
    objects: list[StateObject],
    patched: frozenset[str],
    read: set[str],
    is_custom: Callable[[StateObject], bool],
) -> Iterator[Variation]:
    """Return the variations of objects of the user; those that the scenario changes later are not held.

    `read` are the namespaces and names of objects that the operator reads by name.
    """
    for obj in objects:
        has_data = obj.key.kind in _WITH_DATA and not obj.key.group
        is_reference = has_data or f"{obj.namespace}/{obj.name}" in read
        if obj.data.get("data") if has_data else is_custom(obj) and obj.data.get("spec"):
            yield ChangedInput(str(obj))
        if is_reference and obj.key.kind not in _NOT_LATE and str(obj) not in patched:
            yield LateInput(str(obj))


def describe(obj: Mapping[str, Any]) -> str:
    """Return kind, namespace and name of an object of a step."""
    data = as_dict(obj)
    group, slash, _ = str(data.get("apiVersion", "")).rpartition("/")
    kind = f"{data.get('kind')}.{group}" if slash else str(data.get("kind"))
    metadata = data["metadata"]
    return f"{kind} {metadata.get('namespace') or 'default'}/{metadata.get('name')}"


def _other(obj: StateObject, value: Any) -> Any:
    """Return another value of the same form."""
    if obj.key.kind == "Secret" and not obj.key.group:
        return base64.b64encode(base64.b64decode(value) + b"2").decode()
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}2" if isinstance(value, str) else value
