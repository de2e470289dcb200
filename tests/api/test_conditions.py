"""Conditions."""

from datetime import UTC, datetime

from kubewright.api.apps.v1 import DeploymentCondition, DeploymentStatus
from kubewright.api.conditions import (
    get_condition,
    has_condition,
    is_condition_false,
    is_condition_true,
    remove_condition,
    set_condition,
)
from kubewright.api.encoding.codec import decode, encode
from kubewright.api.meta import Condition
from kubewright.api.objects import Status

FIRST, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


class AppStatus(Status):
    conditions: list[Condition] | None = None


def ready(status: str, reason: str = "R", **more: object) -> Condition:
    return Condition(type="Ready", status=status, reason=reason, **more)  # type: ignore[arg-type]


def test_transition_time_changes_only_with_the_status() -> None:
    status = AppStatus()
    assert set_condition(status, ready("False"), now=lambda: FIRST)
    assert get_condition(status, "Ready").last_transition_time == FIRST
    assert not set_condition(status, ready("False"), now=lambda: LATER)
    assert set_condition(status, ready("False", "Other", message="m"), now=lambda: LATER)
    assert get_condition(status, "Ready").last_transition_time == FIRST
    assert get_condition(status, "Ready").message == "m"
    assert set_condition(status, ready("True", observed_generation=2), now=lambda: LATER)
    assert get_condition(status, "Ready").last_transition_time == LATER
    assert get_condition(status, "Ready").observed_generation == 2
    assert set_condition(status, ready("False", last_transition_time=FIRST), now=lambda: LATER)
    assert get_condition(status, "Ready").last_transition_time == FIRST
    assert len(status.conditions or []) == 1


def test_condition_is_copied() -> None:
    conditions: list[Condition] = []
    given = ready("True")
    set_condition(conditions, given)
    assert given.last_transition_time is None
    assert conditions[0].last_transition_time is not None


def test_get_and_remove() -> None:
    conditions = [ready("True"), Condition(type="Stuck", status="False")]
    assert is_condition_true(conditions, "Ready")
    assert not is_condition_false(conditions, "Ready")
    assert is_condition_false(conditions, "Stuck")
    assert not is_condition_false(conditions, "Absent")
    assert has_condition(conditions, "Ready", "True")
    assert get_condition(None, "Ready") is None
    assert remove_condition(conditions, "Ready")
    assert not remove_condition(conditions, "Ready")
    assert [condition.type for condition in conditions] == ["Stuck"]
    assert not remove_condition(AppStatus(), "Ready")


def test_conditions_of_built_in_kinds() -> None:
    status = DeploymentStatus()
    assert set_condition(status, DeploymentCondition(type="Available", status="True"), now=lambda: FIRST)
    assert is_condition_true(status, "Available")
    assert (status.conditions or [])[0].last_transition_time == FIRST


def test_empty_message_is_encoded() -> None:
    ready = Condition(type="Ready", status="True", reason="Up")
    assert encode(ready) == b'{"type":"Ready","status":"True","reason":"Up","message":""}'
    assert decode(b'{"type":"Ready"}', Condition).message == ""
    assert repr(ready) == "Condition(type='Ready', status='True', reason='Up')"
