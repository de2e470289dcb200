"""The checker of histories: it accepts linearizable histories and rejects those with an injected error."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.testing.linearizability import Operation, Outcome, Violation, find_violations


class Simulation:
    """One server that handles one request after the other; calls and responses overlap at random."""

    def __init__(self, seed: int, *, keys: int = 2, unknown: float = 0.15) -> None:
        self.rng = random.Random(seed)
        self.keys = [f"k{number}" for number in range(keys)]
        self.unknown = unknown
        self.revision = 10
        self.objects: dict[str, tuple[int, str]] = {}
        self.values = (f"v{number}" for number in itertools.count())
        self.seen: dict[str, list[int]] = {key: [1] for key in self.keys}

    def run(self, count: int) -> list[Operation]:
        return [self.request(float(instant)) for instant in range(count)]

    def request(self, instant: float) -> Operation:
        """A request that takes effect at `instant`, unless its response is lost before that."""
        key = self.rng.choice(self.keys)
        verb = self.rng.choice(("create", "get", "get", "update", "update", "delete"))
        called, returned = instant - self.rng.uniform(0, 4), instant + self.rng.uniform(0.01, 4)
        expected = self.rng.choice((None, self.rng.choice(self.seen[key][-3:])))
        unknown = verb != "get" and self.rng.random() < self.unknown
        value = next(self.values) if verb in ("create", "update") else None
        operation = Operation(key, verb, called, returned, value=value)  # type: ignore[arg-type]
        if verb in ("update", "delete"):
            operation = replace(operation, expected=expected)
        if unknown and self.rng.random() < 0.5:
            return replace(operation, outcome="unknown")  # It is not applied.
        done = self.apply(operation)
        if unknown:
            return replace(operation, outcome="unknown")
        if done.revision is not None:
            self.seen[key].append(done.revision)
        return done

    def apply(self, operation: Operation) -> Operation:
        current = self.objects.get(operation.key)
        if operation.verb == "create":
            if current is not None:
                return replace(operation, outcome="exists")
            return self.write(operation)
        if current is None:
            return replace(operation, outcome="not_found")
        if operation.verb == "get":
            return replace(operation, revision=current[0], value=current[1])
        if operation.expected not in (None, current[0]):
            return replace(operation, outcome="conflict")
        return self.write(operation)

    def write(self, operation: Operation) -> Operation:
        self.revision += self.rng.randrange(1, 3)
        if operation.verb == "delete":
            del self.objects[operation.key]
            return operation
        assert operation.value is not None
        self.objects[operation.key] = (self.revision, operation.value)
        return replace(operation, revision=self.revision)


seeds = st.integers(0, 2**32)


@given(seeds, st.integers(1, 60))
def test_histories_of_one_server_are_accepted(seed: int, count: int) -> None:
    history = Simulation(seed).run(count)
    random.Random(seed).shuffle(history)
    assert find_violations(history) == []


def overwritten(history: Sequence[Operation]) -> list[tuple[Operation, Operation]]:
    """Pairs of acknowledged writes; the second replaced the value of the first."""
    versions = {each.revision: each for each in history if each.verb in ("create", "update")}
    return [
        (versions[each.expected], each)
        for each in history
        if each.verb == "update" and each.outcome == "ok" and versions.get(each.expected) is not None
        if each.expected is not None
    ]


@given(seeds)
def test_stale_reads_are_rejected(seed: int) -> None:
    history = Simulation(seed).run(60)
    for old, new in overwritten(history)[:3]:
        called = new.returned + 0.001
        stale = Operation(old.key, "get", called, called + 9, value=old.value, revision=old.revision)
        assert find_violations([*history, stale])


@given(seeds)
def test_two_updates_of_one_revision_are_rejected(seed: int) -> None:
    history = Simulation(seed).run(60)
    for _, update in overwritten(history)[:3]:
        other = replace(update, value="twice", revision=None)
        assert find_violations([*history, other])


@given(seeds)
def test_lost_updates_are_rejected(seed: int) -> None:
    """An acknowledged update that no later read sees."""
    history = Simulation(seed).run(60)
    for old, new in overwritten(history)[:3]:
        if any(each.value == new.value for each in history if each.verb == "get"):
            continue
        end = max(each.returned for each in history) + 1
        read = Operation(old.key, "get", end, end + 1, value=old.value, revision=old.revision)
        assert find_violations([*history, read])


@given(seeds)
def test_wrong_conflicts_and_absences_are_rejected(seed: int) -> None:
    """Responses that deny the only state that was possible."""
    history = Simulation(seed, keys=1, unknown=0).run(30)
    end = max(each.returned for each in history) + 1
    last = Operation("k0", "get", end, end + 1, outcome="not_found")
    exists = bool(find_violations([*history, last]))
    wrong: list[tuple[Outcome, bool]] = [("not_found", exists), ("exists", not exists), ("conflict", True)]
    for outcome, is_wrong in wrong:
        verb = "create" if outcome == "exists" else "update"
        end_write = Operation("k0", verb, end, end + 1, outcome, value="end")  # type: ignore[arg-type]
        assert bool(find_violations([*history, end_write])) is is_wrong


def has_order(history: Sequence[Operation]) -> bool:
    """Whether any order of the operations on one object is possible; tries all of them."""
    revisions = {each.value: each.revision for each in history if each.outcome == "ok" and each.revision}

    def search(rest: Sequence[Operation], current: tuple[int | None, str] | None, last: int) -> bool:
        if all(each.outcome == "unknown" for each in rest):
            return True
        first = min(each.deadline for each in rest)
        for operation in rest:
            others = [each for each in rest if each is not operation]
            exists = current is not None
            matches = current is not None and operation.expected in (None, current[0])
            if operation.called > first:
                continue
            if operation.outcome not in ("ok", "unknown") or operation.verb == "get":
                possible = {
                    "ok": current == (operation.revision, operation.value),
                    "exists": exists,
                    "not_found": not exists,
                    "conflict": exists and not matches,
                }
                if possible[operation.outcome] and search(others, current, last):
                    return True
                continue
            revision = operation.revision or revisions.get(operation.value)
            applies = not exists if operation.verb == "create" else matches
            if applies and (revision is None or revision > last):
                after = None if operation.value is None else (revision, operation.value)
                if search(others, after, max(last, revision or 0)):
                    return True
            if operation.outcome == "unknown" and search(others, current, last):
                return True
        return False

    return search(history, None, 0)


@given(seeds, st.integers(2, 7), st.booleans())
def test_the_verdict_is_that_of_trying_all_orders(seed: int, count: int, is_changed: bool) -> None:
    rng = random.Random(seed)
    history = Simulation(seed, keys=1, unknown=0.4).run(count)
    if is_changed:
        at = rng.randrange(count)
        outcome: Outcome = rng.choice(("exists", "not_found", "conflict"))
        verb = "create" if outcome == "exists" else "update"
        called = rng.uniform(-3, count)
        wrong = Operation(
            "k0", verb, called, called + 2, outcome, value="wrong", expected=rng.choice((None, 11))
        )  # type: ignore[arg-type]
        history[at] = wrong if outcome != "exists" else replace(wrong, expected=None)
    assert (not find_violations(history)) == has_order(history)


def rejected(*operations: Operation) -> Violation:
    [violation] = find_violations(operations)
    return violation


CREATED = Operation("a", "create", 0, 1, value="v1", revision=5)


@pytest.mark.parametrize("outcome", ["applied", "not applied", "applied late"])
def test_requests_without_a_response_may_take_effect_at_any_time(outcome: str) -> None:
    lost = Operation("a", "update", 2, 3, "unknown", value="v2", expected=5)
    old = Operation("a", "get", 4, 5, value="v1", revision=5)
    new = Operation("a", "get", 6, 7, value="v2", revision=8)
    reads: Iterable[Operation] = {
        "applied": [replace(new, called=4, returned=5)],
        "not applied": [old, replace(old, called=8, returned=9)],
        "applied late": [old, new],
    }[outcome]
    assert find_violations([CREATED, lost, *reads]) == []
    assert find_violations([CREATED, lost, new, replace(old, called=8, returned=9)])


def test_the_message_shows_the_operations() -> None:
    update = Operation("a", "update", 2, 3, value="v2", expected=5, revision=7)
    stale = Operation("a", "get", 4, 5, value="v1", revision=5, client="c1 at replica 2")
    assert str(rejected(CREATED, update, stale)) == (
        "object a is not linearizable: after 2 operations (value=v2 revision=7), "
        "none of the last 1 can be next\n"
        "  [0.0000 1.0000] create a value=v1 -> ok revision=5\n"
        "  [2.0000 3.0000] update a value=v2 expected=5 -> ok revision=7\n"
        "  [4.0000 5.0000] get a value=v1 -> ok revision=5 (c1 at replica 2)"
    )


def test_revisions_are_checked_over_all_objects() -> None:
    earlier = Operation("b", "create", 2, 3, value="w", revision=4)
    assert rejected(CREATED, earlier).message == "a later write has an earlier revision"
    assert rejected(CREATED, replace(earlier, revision=5)).message == "revision 5 was used twice"
    assert find_violations([CREATED, replace(earlier, called=0.5)]) == []


def test_a_revision_has_one_value() -> None:
    read = Operation("a", "get", 2, 3, value="other", revision=5)
    assert "two values" in rejected(CREATED, read).message


def test_many_lost_requests_do_not_slow_the_search() -> None:
    """The memo limits the search: without it, the orders of 12 concurrent requests would be tried."""
    lost = [
        Operation("a", "update", 2, 3, "unknown", value=f"lost{number}", expected=5) for number in range(12)
    ]
    read = Operation("a", "get", 4, 5, value="lost7", revision=9)
    stale = Operation("a", "get", 6, 7, value="v1", revision=5)
    assert find_violations([CREATED, *lost, read]) == []
    assert find_violations([CREATED, *lost, read, stale])


def test_many_applied_writes_without_a_response_do_not_slow_the_search() -> None:
    """Their revisions are known, but not when they took effect: any subset could be next."""
    applied = [
        Operation("a", "update", 40 - number, value=f"v{number}", revision=number) for number in range(6, 40)
    ]
    assert find_violations([CREATED, *applied]) == []
    assert find_violations([CREATED, *applied, Operation("a", "get", 50, 51, value="v38", revision=38)]) == []
    stale = Operation("a", "get", 52, 53, value="v37", revision=37)
    last = Operation("a", "get", 50, 51, value="v39", revision=39)
    assert find_violations([CREATED, *applied, last, stale])


def test_values_must_be_distinct() -> None:
    with pytest.raises(ValueError, match="do not have distinct values"):
        find_violations([CREATED, replace(CREATED, called=2, returned=3, outcome="exists", revision=None)])
