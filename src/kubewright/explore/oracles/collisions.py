"""`Collisions`: two objects with long names that differ at the end only have children of their own.

Their names are longer than the length at which names of children are often cut. An operator that handles
neither of them, because a name is too long for what it becomes, is not reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubewright.explore.state import is_of_user

from .probe import Probe
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.state import StateObject

LENGTHS = (50, 62)
"""Lengths of long names: labels, and names of Services and pods, have at most 63 characters."""


class Collisions(Variation):
    """Create two copies of each custom resource, with long names."""

    name = "collisions"
    needs_objects = True

    async def finish(self, probe: Probe) -> None:
        """Create the copies of the last object of each kind, and delete one of them."""
        if not await probe.settle():
            return
        newest = {each.key[:2]: each for each in probe.reconciled_objects()}
        for obj in newest.values():
            for length in LENGTHS:
                name = obj.name.ljust(length - 2, "x")
                copies = (probe.copy_of(obj, name=f"{name}-{number}") for number in (1, 2))
                if not await self._check(probe, *copies):
                    return

    async def _check(self, probe: Probe, first: dict[str, Any], second: dict[str, Any]) -> bool:
        """Create two copies and delete the second; return whether they do not influence each other."""
        before = self._made(probe)
        if not await probe.create(first) or not await probe.settle():
            return True
        alone = self._made(probe) - before
        state = probe.state()
        if not await probe.create(second) or not await probe.settle():
            return True
        added = self._made(probe) - before - alone
        missing = {each.partition(" ")[0] for each in alone} - {each.partition(" ")[0] for each in added}
        where = f"{first['kind']} {_where(second)} beside {_where(first)}"
        if missing and added | alone and not await self._is_failing(probe):
            probe.find(
                self.name,
                f"{where} has no {', '.join(sorted(missing))} of its own; use names that include the whole "
                "name, or a hash of it",
            )
            return False
        other = next((each for each in probe.custom_objects() if _is(each, second)), None)
        if other is None:
            return True
        await probe.delete(other)
        await probe.settle()
        now = probe.state()
        kept = {key: value for key, value in state.items() if key in alone}
        found = probe.differences(kept, {key: value for key, value in now.items() if key in kept})
        if found:
            probe.find(
                self.name,
                f"{where} was created and deleted, which changes what belongs to the other one; identify "
                "children by owner, not by name",
                found,
            )
        one = next((each for each in probe.custom_objects() if _is(each, first)), None)
        if one is not None:
            await probe.delete(one)
            await probe.settle()
        return not found

    def _made(self, probe: Probe) -> set[str]:
        """Return the objects and external entries that the operator has created."""
        made = {str(each) for each in probe.cluster_state if not is_of_user(each)}
        for system, data in probe.run.cluster.external.data.items():
            made.update(f"external {system} {key}" for key in data)
        return {each for each in made if not each.startswith(("Event ", "ServiceAccount ", "IPAddress"))}

    async def _is_failing(self, probe: Probe) -> bool:
        """Whether a reconcile fails: the operator does not handle such names at all."""
        return any(
            controller.failing
            for process in probe.run.cluster.processes
            for controller in process.controllers
        )


def _where(data: dict[str, Any]) -> str:
    metadata = data["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _is(obj: StateObject, data: dict[str, Any]) -> bool:
    where = f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name
    return obj.key.kind == data.get("kind") and where == _where(data)
