"""Event, of the core group and of events.k8s.io.

Both resources store their objects under the same prefix, each in the field names of its own group.
`EventConverter` converts objects that were written through the other group when they are read. Validation,
printing and selectors work on the field names of the core group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kubewright.api.values.names import check_dns_subdomain, check_path_segment
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.strategy import Operation
from kubewright.controlplane.kinds.kind import Kind, KindStrategy, MaybeAwaitErrors
from kubewright.controlplane.kinds.printing import UNKNOWN, column, field, name_of, since
from kubewright.controlplane.kinds.validation import (
    Check,
    Errors,
    Immutable,
    Required,
    Rules,
    UpdateRules,
    When,
)
from kubewright.controlplane.kinds.validation.formats import immutable, qualified_name
from kubewright.schema import field_errors as fe

CORE, EVENTS = "v1", "events.k8s.io/v1"
_EVENTS_NAMES = {
    "involvedObject": "regarding",
    "source": "deprecatedSource",
    "message": "note",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _EVENTS_NAMES.items()}
_REFERENCE = {
    "kind": "Kind",
    "namespace": "Namespace",
    "name": "Name",
    "uid": "UID",
    "apiVersion": "APIVersion",
    "resourceVersion": "ResourceVersion",
    "fieldPath": "FieldPath",
}
"""Fields of an object reference, and their names in Go."""


def convert_event(event: Object, api_version: str) -> Object:
    """Return an event with the field names of one of the groups."""
    if event.get("apiVersion") == api_version:
        return event
    names = _EVENTS_NAMES if api_version == EVENTS else _CORE_NAMES
    return {names.get(name, name): value for name, value in event.items()} | {"apiVersion": api_version}


_SHOWN_IN_CORE: Object = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""Fields of core events that are encoded even if they are empty."""


def event_in_group(event: Object, api_version: str) -> Object:
    """Return an event as an object of one of the groups, with the empty fields that this group encodes."""
    converted = convert_event(event, api_version)
    if api_version == CORE:
        return {**_SHOWN_IN_CORE, **converted}
    return {
        name: value
        for name, value in converted.items()
        if value != "" or name not in ("reportingController", "reportingInstance")
    }


class EventConverter:
    """Converts events to the field names of one group."""

    def __init__(self, api_version: str) -> None:
        self.api_version = api_version

    def convert(self, objects: list[Object], from_version: str, to_version: str) -> list[Object]:
        """Return the converted objects."""
        return [convert_event(event, self.api_version) for event in objects]


class EventStrategy(KindStrategy):
    """Events expire after an hour and have no dependents."""

    ttl = 3600

    def validate(self, op: Operation, obj: Object) -> MaybeAwaitErrors:
        """Validate a new event; those of events.k8s.io also need qualified finalizers."""
        errors = list(cast(Errors, super().validate(op, obj)))
        if obj.get("apiVersion") == EVENTS:
            errors += KindStrategy.qualified_finalizer_errors(obj["metadata"].get("finalizers") or ())
        return errors

    error_group = ""
    default_propagation = "Unsupported"


def _namespace_errors(event: Object, path: str) -> Errors:
    namespace = event["metadata"].get("namespace") or ""
    involved = field(event, "involvedObject.namespace", "")
    if event.get("eventTime"):
        is_valid = involved or namespace in ("default", "kube-system")
    else:
        is_valid = namespace == involved if involved else namespace in ("", "default")
    if is_valid:
        return []
    return [fe.invalid("involvedObject.namespace", involved, "does not match event.namespace")]


def _max_length(limit: int) -> Callable[[str, str], Errors]:
    def check(value: str, path: str) -> Errors:
        too_long = len(value.encode()) > limit
        return [fe.invalid(path, "", f"can have at most {limit} characters")] if too_long else []

    return check


def _common_rules(controller_path: str) -> Rules:
    def controller_errors(event: Object, path: str) -> Errors:
        name = event.get("reportingComponent") or ""
        missing = [] if name else [fe.required(controller_path, "")]
        return missing + qualified_name(name, controller_path)

    required = [Required(), _max_length(128)]
    fields = {
        "reportingInstance": required,
        "action": required,
        "reason": required,
        "message": _max_length(1024),
    }
    return Rules(
        {"": [_namespace_errors, When(lambda event: event.get("eventTime"), [controller_errors, fields])]}
    )


def _type_errors(value: str, path: str) -> Errors:
    return [] if value in ("Normal", "Warning") else [fe.invalid(path, "", f"has invalid value: {value}")]


def _unset(value: Any, path: str) -> Errors:
    return [fe.invalid(path, "", "needs to be unset")] if value else []


def _unset_source(source: Object, path: str) -> Errors:
    return _unset(source.get("component") or source.get("host"), path)


def _series_count(count: int, path: str) -> Errors:
    return [fe.invalid(path, "", "should be at least 2")] if count < 2 else []


CORE_RULES = _common_rules("reportingComponent")
EVENTS_RULES = _common_rules("reportingController")
SERIES_RULES = Rules(
    {"series?.count": Check(_series_count, absent=0), "series?.lastObservedTime": Required()}
)
NEW_EVENT_RULES = Rules(
    {
        "": [EVENTS_RULES, SERIES_RULES],
        "eventTime": Required(),
        "type": Check(_type_errors, absent=""),
        "firstTimestamp": _unset,
        "lastTimestamp": _unset,
        "count": _unset,
        "source": _unset_source,
    }
)


def _changed_series(new: Object, old: Object) -> Errors:
    return SERIES_RULES(new) if new.get("series") != old.get("series") else []


def _reference_value(reference: Object | None) -> Any:
    if reference is None:
        return None
    return fe.GoStruct((go_name, reference.get(name) or "") for name, go_name in _REFERENCE.items())


def _source_value(source: Object | None) -> fe.GoStruct:
    return fe.GoStruct((name.title(), (source or {}).get(name) or "") for name in ("component", "host"))


def _controller_unchanged(new: Any, old: Any, path: str) -> Errors:
    return immutable(new, old, "reportingController")


UPDATE_RULES = UpdateRules(
    EVENTS_RULES,
    _changed_series,
    {
        "involvedObject": Immutable(show=_reference_value),
        "reason": Immutable(),
        "message": Immutable(),
        "source": Immutable(show=_source_value),
        "firstTimestamp": Immutable(),
        "lastTimestamp": Immutable(),
        "count": Immutable(),
    },
    {
        "reason": Immutable(),  # kube-apiserver reports this field twice.
        "type": Immutable(),
        "eventTime": Immutable(),
        "action": Immutable(),
        "related": Immutable(show=_reference_value),
        "reportingComponent": _controller_unchanged,
        "reportingInstance": Immutable(),
    },
)


def _selector(path: str) -> Callable[[Object], str]:
    return lambda event: str(field(convert_event(event, CORE), path, ""))


def _source(obj: Object) -> str:
    event = convert_event(obj, CORE)
    return field(event, "source.component", "") or event.get("reportingComponent") or ""


def _reference_selectors(prefix: str) -> dict[str, Callable[[Object], str]]:
    return {f"{prefix}.{name}": _selector(f"involvedObject.{name}") for name in _REFERENCE}


COLUMNS = (
    column("Last Seen", description="Time since the last occurrence."),
    column("Type", description="Normal or Warning."),
    column("Reason", description="Machine-readable reason."),
    column("Object", description="Object that the event is about."),
    column("Subobject", description="Field of the object.", wide=True),
    column("Source", description="Component that reported the event.", wide=True),
    column("Message", description="Human-readable description."),
    column("First Seen", description="Time since the first occurrence.", wide=True),
    column("Count", description="Number of occurrences.", wide=True),
    column("Name", description="Name of the event.", wide=True, format="name"),
)


def _cells(obj: Object) -> list[Any]:
    event = convert_event(obj, CORE)
    first = since(event.get("firstTimestamp") or event.get("eventTime"))
    last = since(event["lastTimestamp"]) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    series = event.get("series")
    if series is not None:
        last, count = since(series.get("lastObservedTime")), series.get("count") or 0
    involved = event.get("involvedObject") or {}
    kind = (involved.get("kind") or "").lower()
    return [
        last or UNKNOWN,
        event.get("type") or "",
        event.get("reason") or "",
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath") or "",
        _source_text(event),
        (event.get("message") or "").strip(),
        first,
        count,
        name_of(event),
    ]


def _source_text(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _check_core_name(name: str, *, prefix: bool = False) -> list[str]:
    return [] if prefix else check_path_segment(name)


def _kind(api_version: str, **fields: Any) -> Kind:
    return Kind(
        strategy=EventStrategy,
        converter=EventConverter(api_version),
        allow_create_on_update=True,
        rechecks_metadata=False,
        any_finalizer=True,
        columns=COLUMNS,
        cells=_cells,
        **fields,
    )


CORE_EVENT = _kind(
    CORE,
    validate=lambda obj: CORE_RULES(convert_event(obj, CORE)),
    validate_name=_check_core_name,
    field_selectors={
        **_reference_selectors("involvedObject"),
        "reason": _selector("reason"),
        "reportingComponent": _selector("reportingComponent"),
        "source": _source,
        "type": _selector("type"),
    },
)
"""Event of the core group."""

KINDS = {
    "events": _kind(
        EVENTS,
        validate=lambda obj: NEW_EVENT_RULES(convert_event(obj, CORE)),
        validate_update=lambda new, old: UPDATE_RULES(convert_event(new, CORE), convert_event(old, CORE)),
        validate_name=check_dns_subdomain,
        hashed_group_version="v1",
        field_selectors={
            **_reference_selectors("regarding"),
            "reason": _selector("reason"),
            "reportingController": _selector("reportingComponent"),
            "type": _selector("type"),
        },
    ),
}
