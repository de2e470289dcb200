"""What an `Operator` stores about its decorated functions, and the types that their parameters can have."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubewright.api.declaring.declarations import Webhook
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, CachedClient
from kubewright.client import Client
from kubewright.client.kind_types import AnyKind
from kubewright.client.sync.sync_client import SyncClient
from kubewright.controller.request import Request
from kubewright.manager.contexts.context import Context, ObjectLogger
from kubewright.manager.contexts.sync_context import SyncCachedClient, SyncContext
from kubewright.manager.events import EventRecorder
from kubewright.manager.fleets.clusters import Clusters
from kubewright.manager.manager import Manager

from .injection import InjectedFunction, OperatorFunction

if TYPE_CHECKING:
    from .object_functions import ObjectFunctions

MappedKind = tuple[AnyKind, Callable[..., Iterable[Request] | Awaitable[Iterable[Request]]]]
"""A kind, and a function from its objects to requests."""

ObjectKind = type[MetaObject] | str
"""A class, or the plural and group of a resource (`deployments.apps`) whose objects are `Unstructured`."""

PROCESS_VALUES: dict[type, str] = {
    CachedClient: "client",
    Client: "client",
    SyncCachedClient: "sync_client",
    SyncClient: "sync_client",
    Cache: "cache",
    EventRecorder: "recorder",
    Manager: "manager",
    Clusters: "clusters",
}
"""Types that every function of an operator can have as parameters."""
OBJECT_VALUES: dict[type, str] = {
    Context: "context",
    SyncContext: "sync_context",
    Request: "request",
    ObjectLogger: "log",
    logging.Logger: "log",
    **PROCESS_VALUES,
}
"""Types that a function for an object can have as parameters, besides the object."""


@dataclass(slots=True)
class WatchedKind:
    """A kind that a reconciler watches, and the function from its objects to requests."""

    kind: AnyKind
    map_function: InjectedFunction
    reconciles: ObjectKind | None = None
    """The reconciled kind; `None` for the only one of the operator."""
    predicates: Sequence[Callable[..., bool]] = ()
    metadata_only: bool | None = None
    optional: bool = False
    priority: int | None = None
    watched_in: ObjectFunctions | None = None
    """The operator or fleet in whose clusters the kind is watched; `None` for the reconciler's."""


@dataclass(slots=True)
class ObjectHandler:
    """A function for objects of a kind, and its options."""

    kind: ObjectKind
    function: Callable[..., object]
    call: OperatorFunction
    options: dict[str, Any] = field(default_factory=dict)
    owns: Sequence[type[MetaObject]] = ()
    watches: Sequence[WatchedKind] = ()
    predicates: Sequence[Callable[..., bool]] = ()


@dataclass(slots=True)
class AdmissionFunction:
    """A function of an admission webhook."""

    kind: type[MetaObject]
    function: Callable[..., Any]
    webhook: Webhook


def class_of(kind: ObjectKind) -> type:
    """Return the class of the objects that functions for a kind receive."""
    return Unstructured if isinstance(kind, str) else kind
