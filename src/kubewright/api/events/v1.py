"""Types of `events.k8s.io/v1`.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.core.v1 import EventSource
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject, ObjectList, ObjectReference
from kubewright.api.objects import Struct
from kubewright.api.values.times import MicroTime, Time


class EventSeries(Struct):
    count: int | None = None
    last_observed_time: MicroTime | None = None


class Event(MetaObject):
    gvk = GroupVersionKind("events.k8s.io", "v1", "Event")

    action: str | None = None
    deprecated_count: int | None = None
    deprecated_first_timestamp: Time | None = None
    deprecated_last_timestamp: Time | None = None
    deprecated_source: EventSource | None = None
    event_time: MicroTime | None = None
    note: str | None = None
    reason: str | None = None
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    reporting_controller: str | None = None
    reporting_instance: str | None = None
    series: EventSeries | None = None
    type: str | None = None


class EventList(ObjectList[Event]):
    gvk = GroupVersionKind("events.k8s.io", "v1", "EventList")


__all__ = ["Event", "EventList", "EventSeries"]
