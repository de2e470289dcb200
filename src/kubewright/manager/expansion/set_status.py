"""The status of an object that expands to a set of other objects.

It gets `observedGeneration` and these conditions, as far as its class has the fields:

| condition | true if |
|---|---|
| `Ready` | all objects are ready, by the rules of `kubewright.client.readiness` |
| `Progressing` | an object is not ready yet |
| `Degraded` | an object has failed, or the objects cannot be built or applied |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubewright.api.conditions import get_condition, set_condition
from kubewright.api.meta import Condition
from kubewright.controller.children.object_sets import ObjectSets
from kubewright.controller.request import Result
from kubewright.manager.contexts.context import Context

DELETION_RETRY_SECONDS: Final = 10.0
"""Interval in which the deletion of members is checked, in addition to their watch."""
MAX_MESSAGE: Final = 1024


@dataclass(frozen=True)
class SetState:
    """Reason and message of the condition Ready, and the values of all conditions."""

    reason: str
    message: str
    is_ready: bool = False
    is_progressing: bool = False
    is_degraded: bool = False

    @classmethod
    def ready(cls, count: int) -> SetState:
        """Return the state of a set whose objects are ready."""
        return cls("ObjectsReady", f"{count} object{'' if count == 1 else 's'} ready", is_ready=True)

    @classmethod
    def deleting(cls, remaining: list[str]) -> SetState:
        """Return the state of a set whose objects have not been deleted yet."""
        message = f"waiting for the deletion of {', '.join(remaining)}"
        return cls("Deleting", message, is_progressing=True)


def is_new(ctx: Context[Any], state: SetState) -> bool:
    """Return whether the object does not report this state yet."""
    status = getattr(ctx.object, "status", None)
    ready = get_condition(status, "Ready") if has_field(status, "conditions") else None
    return ready is None or (ready.reason, ready.message) != (state.reason, shortened(state.message))


async def report(ctx: Context[Any], state: SetState, generation: int | None) -> None:
    """Write conditions and the observed generation, as far as the status of the kind has these fields."""
    status: Any = getattr(ctx.object, "status", None)
    if has_field(status, "observed_generation"):
        status.observed_generation = generation
    if has_field(status, "conditions"):
        for type_, value in (
            ("Ready", state.is_ready),
            ("Progressing", state.is_progressing),
            ("Degraded", state.is_degraded),
        ):
            condition = Condition(
                type=type_,
                status="True" if value else "False",
                reason=state.reason,
                message=shortened(state.message),
                observed_generation=generation,
            )
            set_condition(status, condition)
    if status is not None:
        await ctx.update_status()


def record_changes(ctx: Context[Any], applied: list[str], deleted: list[str]) -> None:
    """Record events about objects that were applied or deleted."""
    if applied:
        ctx.event("Normal", "Applied", shortened(f"applied {', '.join(applied)}"))
    if deleted:
        ctx.event("Normal", "Pruned", shortened(f"deleted {', '.join(deleted)}"))


def has_field(status: Any, name: str) -> bool:
    """Return whether the class of a status has a field."""
    return name in getattr(type(status), "__struct_fields__", ())


def shortened(message: str) -> str:
    """Return a message of at most 1024 characters."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 4]} ..."


async def delete_members(ctx: Context[Any]) -> Result | None:
    """Delete the members of the set, dependent ones first; return when to check those that still exist."""
    sets = ctx.desired
    assert isinstance(sets, ObjectSets)
    remaining = await sets.delete(ctx.object)
    if not remaining:
        return None
    await report(ctx, SetState.deleting(remaining), ctx.object.metadata.generation)
    return Result(requeue_after=DELETION_RETRY_SECONDS)
