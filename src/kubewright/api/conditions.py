"""Conditions of an object, one per condition type.

The `status` of a condition is `True`, `False` or `Unknown`. `last_transition_time` changes only with the
status, not with the reason or message. All functions take either the list of conditions or a status with an
attribute `conditions`; `set_condition` creates the list if it is `None`.

    set_condition(app.status, Condition(type="Ready", status="True", reason="Up", message="3 of 3"))
    if is_condition_true(app.status, "Ready"): ...
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeVar, overload

from .objects import Struct
from .values.times import now as _now

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


ConditionT = TypeVar("ConditionT", bound=Struct)


class HasConditions(Protocol[ConditionT]):
    """A status with a list of conditions."""

    @property
    def conditions(self) -> list[ConditionT] | None:
        """The conditions, or `None`."""


def _list_of(where: Any) -> list[Any]:
    if where is None:
        return []
    return where if isinstance(where, list) else (where.conditions or [])


@overload
def get_condition(where: list[ConditionT], type: str) -> ConditionT | None: ...
@overload
def get_condition(where: HasConditions[ConditionT] | None, type: str) -> ConditionT | None: ...
def get_condition(where: list[Any] | HasConditions[Any] | None, type: str) -> Any:
    """Return the condition of that type, or `None`."""
    return next((condition for condition in _list_of(where) if condition.type == type), None)


def has_condition(where: list[Any] | HasConditions[Any] | None, type: str, status: str) -> bool:
    """Return whether the condition exists and has this status."""
    condition = get_condition(where, type)
    return condition is not None and condition.status == status


def is_condition_true(where: list[Any] | HasConditions[Any] | None, type: str) -> bool:
    """Return whether the condition exists and is `True`."""
    return has_condition(where, type, TRUE)


def is_condition_false(where: list[Any] | HasConditions[Any] | None, type: str) -> bool:
    """Return whether the condition exists and is `False`."""
    return has_condition(where, type, FALSE)


def set_condition(
    where: list[ConditionT] | HasConditions[ConditionT],
    condition: ConditionT,
    *,
    now: Callable[[], datetime] = _now,
) -> bool:
    """Add or update the condition of this type; return whether anything changed.

    If the status changes, the transition time is that of `condition`, or `now()`; otherwise it is kept.
    """
    wanted: Any = condition.copy()
    existing: Any = get_condition(where, wanted.type)
    if existing is None:
        if wanted.last_transition_time is None:
            wanted.last_transition_time = now()
        if isinstance(where, list):
            where.append(wanted)
        elif where.conditions is None:
            # The protocol has a read-only property, so that lists of subclasses of conditions match it.
            where.conditions = [wanted]  # type: ignore[misc]
        else:
            where.conditions.append(wanted)
        return True
    if existing.status == wanted.status:
        wanted.last_transition_time = existing.last_transition_time
    elif wanted.last_transition_time is None:
        wanted.last_transition_time = now()
    changed = False
    for name in wanted.__struct_fields__:
        value = getattr(wanted, name)
        if getattr(existing, name) != value:
            setattr(existing, name, value)
            changed = True
    return changed


def remove_condition(where: list[Any] | HasConditions[Any] | None, type: str) -> bool:
    """Remove the condition of that type; return whether it existed."""
    conditions = _list_of(where)
    kept = [condition for condition in conditions if condition.type != type]
    if len(kept) == len(conditions):
        return False
    conditions[:] = kept
    return True
