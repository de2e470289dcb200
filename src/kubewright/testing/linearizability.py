"""Checker for linearizability of histories of requests to an API server.

    history = [
        Operation("a", "create", called=0.0, returned=0.2, value="v1", revision=5),
        Operation("a", "get", called=0.3, returned=0.4, value="v1", revision=5),
    ]
    assert find_violations(history) == []

A history is linearizable if every request takes effect at one instant between its call and its response, so
that all responses are those of one server that handles one request after the other. The model of an object
is a register with compare-and-swap on its `resourceVersion`: create, get, update and delete, with the
outcomes of the API (`exists`, `not_found`, `conflict`). A request without a response (`unknown`: timeout,
connection lost, status 5xx) can take effect at any time after its call, or never.

Linearizability is a local property: objects are checked one by one. The search is that of Wing and Gong with
Lowe's memoization: pairs of the set of linearized requests and the state are visited once. Three rules limit
its branches without excluding an order: writes whose revisions are known take effect in the order of these;
a request that does not change the state takes effect as soon as its outcome is possible; and one without a
response that would have no effect is left out. What remains is exponential only in the number of concurrent
deletes, and of writes without a response whose values were not read.

`find_violations` also checks what a store with one revision counter adds: revisions are unique, and follow
the order of writes in time, over all objects.

Every write needs its own value: the revision of a write without a response is known from the reads of its
value.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Verb: TypeAlias = Literal["create", "get", "update", "delete"]
Outcome: TypeAlias = Literal["ok", "exists", "not_found", "conflict", "unknown"]


@dataclass(frozen=True, slots=True)
class Operation:
    """A request and its response. Times are of one monotonic clock."""

    key: str
    verb: Verb
    called: float
    returned: float = math.inf
    """Time of the response; not used if the outcome is unknown."""
    outcome: Outcome = "ok"
    value: str | None = None
    """Value that was written or read."""
    expected: int | None = None
    """`resourceVersion` that an update or delete requires; `None`: any."""
    revision: int | None = None
    """`resourceVersion` of the object in the response; for a delete that of the deletion, if known."""
    client: str = ""
    """Name of the client and the server, for messages."""

    @property
    def deadline(self) -> float:
        """Latest time at which it takes effect."""
        return math.inf if self.outcome == "unknown" else self.returned

    def __str__(self) -> str:
        details = [f"{self.verb} {self.key}"]
        if self.value is not None:
            details.append(f"value={self.value}")
        if self.expected is not None:
            details.append(f"expected={self.expected}")
        details.append(f"-> {self.outcome}")
        if self.revision is not None:
            details.append(f"revision={self.revision}")
        end = "..." if math.isinf(self.deadline) else f"{self.returned:.4f}"
        return f"[{self.called:.4f} {end}] {' '.join(details)}" + (f" ({self.client})" if self.client else "")


@dataclass(frozen=True, slots=True)
class Violation:
    """A reason why a history is not linearizable, and the operations that show it."""

    message: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        return "\n  ".join((self.message, *map(str, self.operations)))


def find_violations(history: Iterable[Operation]) -> list[Violation]:
    """Return the violations of linearizability and of the order of revisions; at most one per object."""
    operations = [each for each in history if not (each.verb == "get" and each.outcome == "unknown")]
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    found = list(_find_revision_violations(operations))
    for key, group in by_key.items():
        if (violation := _check_object(key, group)) is not None:
            found.append(violation)
    return found


def _find_revision_violations(operations: Sequence[Operation]) -> Iterator[Violation]:
    """Check that revisions of acknowledged writes are unique and in the order of time, over all objects."""
    writes = [
        each
        for each in operations
        if each.verb != "get" and each.outcome == "ok" and each.revision is not None
    ]
    used: dict[int, Operation] = {}
    for write in writes:
        assert write.revision is not None
        if (other := used.setdefault(write.revision, write)) is not write:
            yield Violation(f"revision {write.revision} was used twice", (other, write))
    # In the order of calls, beside the newest of the writes that had returned before the call.
    returned = sorted(writes, key=lambda each: each.returned)
    newest: Operation | None = None
    position = 0
    for write in sorted(writes, key=lambda each: each.called):
        while position < len(returned) and returned[position].returned < write.called:
            candidate = returned[position]
            if newest is None or (candidate.revision or 0) > (newest.revision or 0):
                newest = candidate
            position += 1
        if newest is not None and (write.revision or 0) < (newest.revision or 0):
            yield Violation("a later write has an earlier revision", (newest, write))


@dataclass(frozen=True, slots=True)
class _State:
    """State of one object: its revision and value (`None`: it does not exist), and the last revision."""

    revision: int | None
    value: str | None
    last: int


_ABSENT = _State(None, None, 0)


def _check_object(key: str, operations: Sequence[Operation]) -> Violation | None:
    revisions: dict[str, int] = {}
    values: dict[int, Operation] = {}
    for operation in operations:
        if operation.outcome != "ok" or operation.value is None or operation.revision is None:
            continue
        known = revisions.setdefault(operation.value, operation.revision)
        other = values.setdefault(operation.revision, operation)
        if known != operation.revision or other.value != operation.value:
            return Violation(
                f"object {key}: a revision has two values, or a value two revisions", (operation, other)
            )
    written = [each.value for each in operations if each.verb in ("create", "update")]
    if len(set(written)) != len(written):
        raise ValueError(f"the writes of {key} do not have distinct values; the history cannot be checked")
    return _Search(key, operations, revisions).run()


def _step(operation: Operation, state: _State, revisions: Mapping[str, int]) -> _State | None:
    """Return the state after an operation; `None` if its outcome is impossible in `state`."""
    exists = state.value is not None
    matches = exists and operation.expected in (None, state.revision)
    outcome = operation.outcome
    if operation.verb == "get":
        if outcome == "not_found":
            return None if exists else state
        same = state.value == operation.value and operation.revision in (None, state.revision)
        return state if exists and same else None
    if outcome == "exists":
        return state if operation.verb == "create" and exists else None
    if outcome == "not_found":
        return None if exists else state
    if outcome == "conflict":
        return state if exists and not matches else None
    applies = not exists if operation.verb == "create" else matches
    if not applies:
        return None
    if operation.verb == "delete":
        revision = operation.revision
        after = _State(None, None, max(state.last, revision or 0))
    else:
        assert operation.value is not None, "a write has a value"
        # The revision of an unacknowledged write that no response contains is unknown.
        revision = operation.revision or revisions.get(operation.value)
        after = _State(revision or -1, operation.value, max(state.last, revision or 0))
    if revision is not None and revision <= state.last:
        return None
    return after


class _Entry:
    """Call or response of an operation, in a doubly linked list in the order of time."""

    __slots__ = ("following", "index", "is_call", "previous", "response")

    def __init__(self, index: int, *, is_call: bool) -> None:
        self.index = index
        self.is_call = is_call
        self.response: _Entry | None = None
        self.previous: _Entry | None = None
        self.following: _Entry | None = None

    def remove(self) -> None:
        """Remove a call and its response from the list."""
        for entry in (self, self.response):
            assert entry is not None
            assert entry.previous is not None
            entry.previous.following = entry.following
            if entry.following is not None:
                entry.following.previous = entry.previous

    def restore(self) -> None:
        """Undo `remove`."""
        for entry in (self.response, self):
            assert entry is not None
            assert entry.previous is not None
            entry.previous.following = entry
            if entry.following is not None:
                entry.following.previous = entry


class _Search:
    """Depth-first search for an order of the operations of one object."""

    def __init__(self, key: str, operations: Sequence[Operation], revisions: Mapping[str, int]) -> None:
        self.key = key
        self.operations = operations
        self.revisions = revisions
        self.head = self._entries()
        self._ranks = self._rank_writes()

    def _entries(self) -> _Entry:
        events: list[tuple[float, int, int, _Entry]] = []
        for index, operation in enumerate(self.operations):
            call, response = _Entry(index, is_call=True), _Entry(index, is_call=False)
            call.response = response
            # At equal times calls come first: such operations count as concurrent.
            events += [(operation.called, 0, index, call), (operation.deadline, 1, index, response)]
        head = last = _Entry(-1, is_call=False)
        for *_, entry in sorted(events, key=lambda event: event[:3]):
            last.following, entry.previous = entry, last
            last = entry
        return head

    def _rank_writes(self) -> dict[int, int]:
        """Return the positions of the writes whose revisions are known, in the order of these.

        All of them have taken effect: they were acknowledged, or their value was read.
        """
        known: list[tuple[int, int]] = []
        for index, operation in enumerate(self.operations):
            if operation.verb != "get" and operation.outcome in ("ok", "unknown"):
                revision = operation.revision or self.revisions.get(operation.value or "")
                if revision is not None:
                    known.append((revision, index))
        return {index: rank for rank, (_, index) in enumerate(sorted(known))}

    def _next(self, state: _State) -> tuple[_Entry | None, bool]:
        """Return the first candidate, and whether it is the only one.

        An operation that does not change the state is the only candidate if its outcome is possible: every
        order in which it takes effect later is also one in which it takes effect now.
        """
        entry = self.head.following
        while entry is not None and entry.is_call:
            if _step(self.operations[entry.index], state, self.revisions) == state:
                return entry, True
            entry = entry.following
        return self.head.following, False

    def run(self) -> Violation | None:
        """Return the violation, if there is no order."""
        required = sum(1 << index for index, each in enumerate(self.operations) if each.outcome != "unknown")
        state, linearized, ranked = _ABSENT, 0, 0
        visited: set[tuple[int, _State]] = set()
        stack: list[tuple[_Entry, _State, bool]] = []
        longest: tuple[int, tuple[int, ...], _State] = (-1, (), state)
        entry, is_only = self._next(state)
        while linearized & required != required:
            if entry is not None and entry.is_call:
                index = entry.index
                after = None
                if self._ranks.get(index, ranked) == ranked:
                    after = _step(self.operations[index], state, self.revisions)
                together = linearized | 1 << index
                if after is not None and (together, after) not in visited:
                    visited.add((together, after))
                    stack.append((entry, state, is_only))
                    state, linearized, ranked = after, together, ranked + (index in self._ranks)
                    entry.remove()
                    entry, is_only = self._next(state)
                else:
                    entry = None if is_only else entry.following
                continue
            # A response whose call could not be linearized before it: go back.
            if len(stack) > longest[0]:
                longest = (len(stack), tuple(each.index for each, *_ in stack), state)
            if not stack:
                return self._violation(longest[1], longest[2])
            call, state, is_only = stack.pop()
            linearized &= ~(1 << call.index)
            ranked -= call.index in self._ranks
            call.restore()
            entry = None if is_only else call.following
        return None

    def _violation(self, order: tuple[int, ...], state: _State) -> Violation:
        """Describe the longest order, and the operations of which none can be next."""
        rest = [each for index, each in enumerate(self.operations) if index not in order]
        end = min(each.deadline for each in rest)
        candidates = sorted((each for each in rest if each.called <= end), key=lambda each: each.called)
        current = (
            "it does not exist" if state.value is None else f"value={state.value} revision={state.revision}"
        )
        recent = tuple(self.operations[index] for index in order[-5:])
        return Violation(
            f"object {self.key} is not linearizable: after {len(order)} operations ({current}), "
            f"none of the last {len(candidates)} can be next",
            (*recent, *candidates),
        )
