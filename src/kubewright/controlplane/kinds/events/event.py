"""Events: one set of objects in two groups, the core one and `events.k8s.io`, each in its own shape.

Both resources have the same place in storage, and each stores what it is given as it is. What the other has
written is converted when it is read; `apiVersion` says which shape an object has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kubewright.api.names import check_dns_subdomain, check_path_segment
from kubewright.apiserver.objects import Object
from kubewright.apiserver.resource import TableColumn
from kubewright.apiserver.strategy import Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import UNKNOWN, field, since
from kubewright.controlplane.kinds.validation.formats import Errors, immutable, qualified_name
from kubewright.schema import field_errors as fe

HOUR = 3600
CORE, NEWER = "v1", "events.k8s.io/v1"
_RENAMED = {
    "involvedObject": "regarding",
    "source": "deprecatedSource",
    "message": "note",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _RENAMED.items()}
_REFERENCE = {
    "kind": "Kind",
    "namespace": "Namespace",
    "name": "Name",
    "uid": "UID",
    "apiVersion": "APIVersion",
    "resourceVersion": "ResourceVersion",
    "fieldPath": "FieldPath",
}
_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def in_shape(event: Object, api_version: str) -> Object:
    """An event as one of the two groups has it."""
    if event.get("apiVersion") == api_version:
        return event
    table = _RENAMED if api_version == NEWER else _BACK
    return {table.get(name, name): value for name, value in event.items()} | {"apiVersion": api_version}


def _shown(name: str, value: Any) -> Any:
    """A field as messages show it: references and sources have all their parts then."""
    if name in ("involvedObject", "related") and value is not None:
        return fe.GoStruct((shown, value.get(part) or "") for part, shown in _REFERENCE.items())
    if name == "source":
        return fe.GoStruct((part.title(), (value or {}).get(part) or "") for part in ("component", "host"))
    return value


class _Shape:
    """Converts what the other group has stored."""

    def __init__(self, api_version: str) -> None:
        self.api_version = api_version

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Objects in this group's shape."""
        return [in_shape(event, self.api_version) for event in objects]


class EventStrategy(KindStrategy):
    """Rules of events, about the core shape of either group's objects. They vanish after an hour."""

    allow_create_on_update = True
    ttl = HOUR
    error_group = ""
    default_propagation = "Unsupported"

    def __init__(self, api_version: str, kind: Kind) -> None:
        """Initialize for the events of one group."""
        super().__init__(kind)
        self.api_version = api_version

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """The core group takes any name that can stand in a path."""
        if self.api_version == NEWER:
            return check_dns_subdomain(name, prefix=prefix)
        return [] if prefix else check_path_segment(name)

    def validate(self, op: Operation, obj: Object) -> Errors:
        """New events of `events.k8s.io` have none of the fields that it has given up."""
        event = in_shape(obj, CORE)
        errors = self._common_errors(event)
        if self.api_version == CORE:
            return errors
        errors += _series_errors(event)
        if not event.get("eventTime"):
            errors.append(fe.required("eventTime", ""))
        if event.get("type") not in ("Normal", "Warning"):
            errors.append(fe.invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
        for name in ("firstTimestamp", "lastTimestamp", "count"):
            if event.get(name):
                errors.append(fe.invalid(name, "", "needs to be unset"))
        source = event.get("source") or {}
        if source.get("component") or source.get("host"):
            errors.append(fe.invalid("source", "", "needs to be unset"))
        return errors

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Errors:
        """In `events.k8s.io` only the series changes."""
        event, before = in_shape(obj, CORE), in_shape(old, CORE)
        errors = self._common_errors(event)
        if self.api_version == CORE:
            return errors
        if event.get("series") != before.get("series"):
            errors += _series_errors(event)
        for name in (
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "reason",
            "type",
            "eventTime",
            "action",
            "related",
        ):
            if event.get(name) != before.get(name):
                errors.append(fe.invalid(name, _shown(name, event.get(name)), "field is immutable"))
        name = "reportingComponent"
        errors += immutable(event.get(name), before.get(name), "reportingController")
        name = "reportingInstance"
        return errors + immutable(event.get(name), before.get(name), name)

    def _common_errors(self, event: Object) -> Errors:
        namespace = event["metadata"].get("namespace") or ""
        about = field(event, "involvedObject.namespace", "")
        mismatch = fe.invalid("involvedObject.namespace", about, "does not match event.namespace")
        if not event.get("eventTime"):
            fits = namespace in ("", "default") if not about else namespace == about
            return [] if fits else [mismatch]
        errors: Errors = []
        if not about and namespace not in ("default", "kube-system"):
            errors.append(mismatch)
        where = "reportingComponent" if self.api_version == CORE else "reportingController"
        controller = event.get("reportingComponent") or ""
        if not controller:
            errors.append(fe.required(where, ""))
        errors += qualified_name(controller, where)
        for name, limit in _LIMITS.items():
            value = event.get(name) or ""
            if not value and name != "message":
                errors.append(fe.required(name, ""))
            if len(value.encode()) > limit:
                errors.append(fe.invalid(name, "", f"can have at most {limit} characters"))
        return errors


def _series_errors(event: Object) -> Errors:
    series = event.get("series")
    if series is None:
        return []
    errors: Errors = []
    if (series.get("count") or 0) < 2:
        errors.append(fe.invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(fe.required("series.lastObservedTime", ""))
    return errors


def _selector(path: str) -> Callable[[Object], str]:
    return lambda event: str(field(in_shape(event, CORE), path, ""))


def _source(event: Object) -> str:
    event = in_shape(event, CORE)
    return field(event, "source.component", "") or event.get("reportingComponent") or ""


_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

_DEFINITIONS = (
    ("Last Seen", 0, "When it was seen last."),
    ("Type", 0, "Whether it is normal."),
    ("Reason", 0, "Why it happened, in a word."),
    ("Object", 0, "What it is about."),
    ("Subobject", 1, "The part that it is about."),
    ("Source", 1, "Who says so."),
    ("Message", 0, "What happened."),
    ("First Seen", 1, "When it was seen first."),
    ("Count", 1, "How often it was seen."),
    ("Name", 1, "The name of the event."),
)
_COLUMNS = tuple(
    TableColumn(name, format="name" if name == "Name" else "", description=text, priority=priority)
    for name, priority, text in _DEFINITIONS
)


def _cells(obj: Object) -> list[Any]:
    event = in_shape(obj, CORE)
    first = since(event.get("firstTimestamp") or event.get("eventTime"))
    last = since(event["lastTimestamp"]) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    series = event.get("series")
    if series is not None:
        last, count = since(series.get("lastObservedTime")), series.get("count") or 0
    about = event.get("involvedObject") or {}
    kind = (about.get("kind") or "").lower()
    return [
        last or UNKNOWN,
        event.get("type") or "",
        event.get("reason") or "",
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath") or "",
        _source_text(event),
        (event.get("message") or "").strip(),
        first,
        count,
        event["metadata"].get("name") or "",
    ]


def _source_text(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


CORE_EVENT = Kind(
    strategy=partial(EventStrategy, CORE),
    converter=_Shape(CORE),
    columns=_COLUMNS,
    cells=_cells,
    field_selectors={
        **{f"involvedObject.{name}": _selector(f"involvedObject.{name}") for name in _ABOUT},
        "reason": _selector("reason"),
        "reportingComponent": _selector("reportingComponent"),
        "source": _source,
        "type": _selector("type"),
    },
    rechecks_metadata=False,
    any_finalizer=True,
)
"""Events of the core group."""

KINDS = {
    "events": Kind(
        strategy=partial(EventStrategy, NEWER),
        converter=_Shape(NEWER),
        columns=_COLUMNS,
        cells=_cells,
        field_selectors={
            **{f"regarding.{name}": _selector(f"involvedObject.{name}") for name in _ABOUT},
            "reason": _selector("reason"),
            "reportingController": _selector("reportingComponent"),
            "type": _selector("type"),
        },
        rechecks_metadata=False,
        any_finalizer=True,
    ),
}
