"""`Plan`: what an operator would do with the objects of a cluster.

A plan is data: `to_dict` returns it for JSON, and the reports in `text`, `markdown` and `html` read it. All
values are redacted.

| exit code | meaning |
|---|---|
| 0 | nothing would change |
| 1 | the plan is incomplete: an error, a missing permission, a blocked call; or the policy denies a change |
| 2 | something would change |
| 3 | something would be disrupted: pods restart, volumes are deleted, stored objects are rejected |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sized
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from kubewright.rehearse.snapshot import ObjectName

from .object_changes import MISSING, FieldChange

NOTHING: Final = 0
ERROR: Final = 1
CHANGES: Final = 2
DISRUPTIVE: Final = 3

Verb = Literal["create", "change", "delete", "recreate"]
Actor = Literal["operator", "cluster"]


@dataclass(slots=True, kw_only=True)
class PlannedChange:
    """What would happen to an object."""

    name: ObjectName
    verb: Verb
    actor: Actor = "operator"
    """`cluster`: a controller of the cluster changes it as a consequence."""
    owners: tuple[ObjectName, ...] = ()
    """The controlling owner, its owner, and so on."""
    fields: list[FieldChange] = field(default_factory=list)
    diff: str = ""
    order: int = 0
    """Position of its first change among all changes."""
    seconds: float = 0.0
    """Virtual seconds from the start of the operator to the first change."""
    disruption: str = ""
    """What is disrupted, such as `restarts 3 pods`; empty if nothing is."""
    policy: str = ""
    """`allowed` or `denied` by a rule of the policy."""

    @property
    def is_status_only(self) -> bool:
        """Whether only the status would change."""
        return self.verb == "change" and all(each.is_status for each in self.fields)

    @property
    def signature(self) -> tuple[Any, ...]:
        """What is equal if two versions of an operator do the same."""
        shown = tuple((each.path, repr(each.before), repr(each.after)) for each in self.fields)
        return self.name, self.verb, shown, self.diff if self.verb != "change" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """An Event that the operator would record."""

    object: str
    type: str
    reason: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCondition:
    """A condition of an object that would change."""

    object: str
    type: str
    before: str
    after: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPermission:
    """A request that was denied."""

    verb: str
    resource: str
    object: str = ""
    count: int = 1

    def __str__(self) -> str:
        where = f" ({self.object})" if self.object else ""
        return f"{self.verb} {self.resource}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A change of a CRD."""

    definition: str
    version: str
    path: str
    reason: str
    is_breaking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedObject:
    """A stored object that does not fit in the new schema."""

    object: str
    version: str
    errors: tuple[str, ...] = ()
    """Why the API server would reject it."""
    lost: tuple[str, ...] = ()
    """Fields that the API server would remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An object that did not become ready; the operator can continue when it does."""

    object: str
    message: str


@dataclass(slots=True, kw_only=True)
class Plan:
    """What would happen."""

    operator: str
    source: str
    objects: int
    """Number of objects that were loaded."""
    kubernetes_version: str
    against: str = ""
    """The version whose changes are left out."""
    assume: str = "ready"
    service_account: str = ""
    seconds: float = 0.0
    """Virtual seconds until nothing changed any more."""
    changes: list[PlannedChange] = field(default_factory=list)
    """In the order in which they happened."""
    events: list[PlannedEvent] = field(default_factory=list)
    conditions: list[PlannedCondition] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    permissions: list[MissingPermission] = field(default_factory=list)
    schema: list[SchemaChange] = field(default_factory=list)
    rejected: list[RejectedObject] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Addresses of external systems that have no fake; the calls were blocked."""
    notes: list[str] = field(default_factory=list)
    """What the plan does not cover."""

    @property
    def operator_changes(self) -> list[PlannedChange]:
        """What the operator itself would do."""
        return [each for each in self.changes if each.actor == "operator"]

    @property
    def disruptions(self) -> list[PlannedChange]:
        """Disruptive changes, in their order."""
        return [each for each in self.changes if each.disruption]

    @property
    def denied(self) -> list[PlannedChange]:
        """Changes that the policy denies."""
        return [each for each in self.changes if each.policy == "denied"]

    @property
    def exit_code(self) -> int:
        """The exit code for CI."""
        if self.errors or self.permissions or self.calls or self.denied:
            return ERROR
        if self.rejected or any(each.disruption and each.policy != "allowed" for each in self.changes):
            return DISRUPTIVE
        if self.schema or any(each.policy != "allowed" for each in self.operator_changes):
            return CHANGES
        return NOTHING

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        result = asdict(self)
        result["changes"] = [_change(each) for each in self.changes]
        result["exit_code"] = self.exit_code
        return {_camel(name): _renamed(value) for name, value in result.items()}

    def summary(self) -> str:
        """Return the numbers of changes in one line."""
        counts: dict[str, int] = {}
        for each in self.operator_changes:
            verb = "change the status of" if each.is_status_only else each.verb
            counts[verb] = counts.get(verb, 0) + 1
        order = ("create", "change", "change the status of", "recreate", "delete")
        parts = [f"{verb} {counts[verb]}" for verb in order if verb in counts]
        noun = "object" if parts and parts[-1].endswith(" 1") else "objects"
        text = f"{', '.join(parts)} {noun}" if parts else "no changes"
        extra: list[tuple[Sized, str]] = [
            (self.schema, "change of a CRD"),
            (self.disruptions, "disruptive change"),
            (self.rejected, "stored object that the new schema rejects"),
            (self.errors, "error"),
            (self.permissions, "missing permission"),
            (self.calls, "blocked call"),
            (self.denied, "change denied by the policy"),
        ]
        for found, noun in extra:
            if found:
                text += f"; {_plural(len(found), noun)}"
        return text


def _plural(count: int, noun: str) -> str:
    """Return a number with a noun, whose first part becomes a plural: `2 changes denied by the policy`."""
    if count == 1:
        return f"1 {noun}"
    head = re.split(" (?=that |denied |of )", noun, maxsplit=1)
    return f"{count} {' '.join((f'{head[0]}s', *head[1:]))}"


def _change(change: PlannedChange) -> dict[str, Any]:
    fields = []
    for each in change.fields:
        values = {"path": each.path}
        values |= {"before": each.before} if each.before != MISSING else {}
        values |= {"after": each.after} if each.after != MISSING else {}
        fields.append(values)
    found = {
        "group": change.name.group,
        "kind": change.name.kind,
        "namespace": change.name.namespace,
        "name": change.name.name,
        "verb": change.verb,
        "actor": change.actor,
        "owners": list(map(str, change.owners)),
        "fields": fields,
        "diff": change.diff,
        "seconds": round(change.seconds, 3),
        "disruption": change.disruption,
        "policy": change.policy,
    }
    return {name: value for name, value in found.items() if value or name in ("verb", "kind", "name")}


def _renamed(value: Any) -> Any:
    """Return a value with the names of JSON, without empty fields of entries."""
    if isinstance(value, list):
        return [_entry(each) if isinstance(each, dict) else each for each in value]
    return value


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {_camel(name): value for name, value in entry.items() if value not in ("", (), None)}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.title, rest))
