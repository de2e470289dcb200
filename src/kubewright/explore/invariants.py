"""Invariants: functions over a `ClusterState` that must hold always, or at the end of a run.

    @always
    def at_most_three_pods(state: ClusterState) -> str | None:
        count = len(state.of_kind("Pod"))
        return f"{count} pods exist" if count > 3 else None

A check returns what is wrong: a text, several texts, or `False`; it can also use `assert`. Nothing, `None`
and `True` mean that the invariant holds. `always` checks after every change of the store, `at_end` when the
operator is idle after the last step.

The ready-made invariants are functions that return an `Invariant`. YAML scenarios name them, with arguments
where they have any: `- no_orphans`, `- at_most_writes: 20`, `- no_duplicate_children: {kind: ConfigMap}`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, overload

from kubewright.api.declaring.declarations import Declaration, DeclarationProvider

from .state import IGNORED_RESOURCES, ClusterState, KindName, StateObject, split_kind

CheckResult = str | bool | Iterable[str] | None
Check = Callable[[ClusterState], CheckResult]
When = Literal["always", "end"]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A named check of a `ClusterState`."""

    name: str
    check: Check
    when: When = "always"

    def problems(self, state: ClusterState) -> list[str]:
        """Return what is wrong in a state; empty if the invariant holds."""
        try:
            result = self.check(state)
            if result is None or result is True:
                return []
            if result is False:
                return ["does not hold"]
            return [result] if isinstance(result, str) else list(result)
        except AssertionError as error:
            return [str(error) or "an assertion failed"]


@overload
def always(check: Check, /) -> Invariant: ...
@overload
def always(*, name: str) -> Callable[[Check], Invariant]: ...
def always(check: Check | None = None, /, *, name: str = "") -> Invariant | Callable[[Check], Invariant]:
    """Declare an invariant that must hold after every change of the store."""
    return _declare(check, name, "always")


@overload
def at_end(check: Check, /) -> Invariant: ...
@overload
def at_end(*, name: str) -> Callable[[Check], Invariant]: ...
def at_end(check: Check | None = None, /, *, name: str = "") -> Invariant | Callable[[Check], Invariant]:
    """Declare an invariant that must hold when the operator is idle after the last step."""
    return _declare(check, name, "end")


def _declare(check: Check | None, name: str, when: When) -> Invariant | Callable[[Check], Invariant]:
    def declare(function: Check) -> Invariant:
        return Invariant(name or getattr(function, "__name__", "invariant"), function, when)

    return declare if check is None else declare(check)


def no_orphans(*kinds: KindName) -> Invariant:
    """At the end, no object has only owners that do not exist.

    Objects of `kinds` must have an existing owner, also if they have no owner references.
    """
    required = [split_kind(kind) for kind in kinds]

    def check(state: ClusterState) -> Iterator[str]:
        uids = {each.uid for objects in (state.objects, state.baseline) for each in objects.values()}
        for obj in state:
            references = obj.owner_references
            if not references and _matches_any(obj, required):
                yield f"{obj} has no owner"
            elif references and not any(each.get("uid") in uids for each in references):
                owner = references[0]
                yield f"{obj} is an orphan: its owner {owner.get('kind')} {owner.get('name')} does not exist"

    return Invariant("no_orphans", check, "end")


def one_controller() -> Invariant:
    """Always, an object has at most one controlling owner, and does not change from one to another."""

    def check(state: ClusterState) -> Iterator[str]:
        for obj in state.changed():
            controllers = [each for each in obj.owner_references if each.get("controller")]
            if len(controllers) > 1:
                names = ", ".join(f"{each.get('kind')} {each.get('name')}" for each in controllers)
                yield f"{obj} has {len(controllers)} controllers: {names}"
            before = next((each for each in state.history(obj) if each.uid == obj.uid), None)
            uids = {each.controller_uid for each in (before, obj) if each is not None and each.controller_uid}
            if len(uids) > 1:
                yield f"the controller of {obj} changed from one owner to another"

    return Invariant("one_controller", check, "always")


def no_duplicate_children(
    kind: KindName, *, key: str | Callable[[StateObject], Hashable] | None = None, when: When = "always"
) -> Invariant:
    """Always, an owner has at most one child of a kind for each key.

    `key` is a label, or a function of the child; without it an owner may have one child of the kind. Children
    that are being deleted are not counted.
    """

    def check(state: ClusterState) -> Iterator[str]:
        seen: dict[tuple[str, Hashable], StateObject] = {}
        for obj in state.of_kind(kind):
            if obj.is_deleting:
                continue
            value = obj.labels.get(key) if isinstance(key, str) else key(obj) if key is not None else ""
            owner = obj.controller_uid or next((str(each.get("uid")) for each in obj.owner_references), "")
            if (not owner and key is None) or value is None:
                continue
            first = seen.setdefault((owner, value), obj)
            if first is not obj:
                what = f"for key {value!r}" if key is not None else "of one owner"
                yield f"{first} and {obj} are duplicate children {what}"

    return Invariant("no_duplicate_children", check, when)


def observed_generation_current(*kinds: KindName) -> Invariant:
    """At the end, `status.observedGeneration` is the generation, where it is set and for all of `kinds`."""
    required = [split_kind(kind) for kind in kinds]

    def check(state: ClusterState) -> Iterator[str]:
        for obj in state:
            observed = obj.get("status", "observedGeneration")
            generation = obj.metadata.get("generation")
            if observed is None and not _matches_any(obj, required):
                continue
            if observed != generation and not obj.is_deleting:
                yield f"{obj}: status.observedGeneration is {observed}, the generation is {generation}"

    return Invariant("observed_generation_current", check, "end")


def secrets_keep_values() -> Invariant:
    """Always, the values of a Secret stay the same for the life of its owner, also if it is created again.

    Keys can be added. A Secret of another owner with the same name is another Secret.
    """

    def check(state: ClusterState) -> Iterator[str]:
        for obj in state.changed():
            if obj.key[:2] != ("", "Secret"):
                continue
            data = obj.get("data", default={}) or {}
            for before in state.history(obj):
                if before.controller_uid != obj.controller_uid:
                    continue
                earlier = before.get("data", default={}) or {}
                names = sorted(name for name in earlier if name in data and data[name] != earlier[name])
                if names:
                    how = "changed" if before.uid == obj.uid else "created again"
                    yield f"{obj} was {how} with a new value of {', '.join(names)}"
                    break

    return Invariant("secrets_keep_values", check, "always")


def finalizers_removed() -> Invariant:
    """At the end, no object waits for its finalizers to be removed."""

    def check(state: ClusterState) -> Iterator[str]:
        for obj in state:
            if obj.is_deleting and obj.finalizers:
                yield f"{obj} is being deleted and still has the finalizers {', '.join(obj.finalizers)}"

    return Invariant("finalizers_removed", check, "end")


def no_unchanged_writes(allowed: int = 0) -> Invariant:
    """At the end, the operator has sent at most `allowed` successful writes that changed nothing."""

    def check(state: ClusterState) -> str | None:
        found = [each for each in state.writes() if each.is_applied and not each.is_changed]
        if len(found) <= allowed:
            return None
        return f"{len(found)} writes changed nothing (allowed: {allowed}); the last one: {found[-1]}"

    return Invariant("no_unchanged_writes", check, "end")


def at_most_writes(count: int) -> Invariant:
    """Always, the operator has sent at most `count` writes."""

    def check(state: ClusterState) -> str | None:
        writes = state.writes()
        if len(writes) <= count:
            return None
        return f"the operator sent {len(writes)} writes (allowed: {count}); the last one: {writes[-1]}"

    return Invariant("at_most_writes", check, "always")


def stable_after_convergence() -> Invariant:
    """At the end, no object has changed since the operator first became idle after the last step."""

    def check(state: ClusterState) -> Iterator[str]:
        if state.converged is None:
            return
        for obj in state.changed(state.converged):
            yield f"{obj} changed after the operator had converged"
        for obj in state.deleted(state.converged):
            yield f"{obj} was deleted after the operator had converged"

    return Invariant("stable_after_convergence", check, "end")


def permissions_declared(*declared: DeclarationProvider | Declaration | Iterable[Declaration]) -> Invariant:
    """At the end, RBAC rules allow every request that the operator has sent.

    The rules are those of the explored operator, unless others are given. Requests for Leases and Events are
    not checked: their rules follow from the settings, and some families enable leader election.
    """

    def check(state: ClusterState) -> Iterator[str]:
        from kubewright.testing.permissions import PermissionRecorder, RequiredPermission

        recorder = PermissionRecorder(*(declared or (state.declared,)))
        for each in state.requests:
            if each.actor == "operator" and each.resource and each.resource not in IGNORED_RESOURCES:
                resource = f"{each.resource}/{each.subresource}" if each.subresource else each.resource
                name = "" if each.verb in ("create", "list", "watch", "deletecollection") else each.name
                use = RequiredPermission(each.group, resource, each.verb, each.namespace, name)
                recorder.uses[use] = recorder.uses.get(use, 0) + 1
        for missing in recorder.missing():
            yield f"no rule allows: {missing}"

    return Invariant("permissions_declared", check, "end")


def _matches_any(obj: StateObject, kinds: Sequence[tuple[str | None, str]]) -> bool:
    key = obj.key
    return any(key.kind.lower() == kind and group in (None, key.group) for group, kind in kinds)


READY_MADE: Final[dict[str, Callable[..., Invariant]]] = {
    function.__name__: function
    for function in (
        no_orphans,
        one_controller,
        no_duplicate_children,
        observed_generation_current,
        secrets_keep_values,
        finalizers_removed,
        no_unchanged_writes,
        at_most_writes,
        stable_after_convergence,
        permissions_declared,
    )
}
"""The ready-made invariants by name."""
