"""Controllers: level-triggered reconciliation, and what reconcilers need.

In layers, lowest first; each works without those above it:

- `queue`: each key once, by priority, never two workers on one; `rate_limiters`: how long failures wait
- `request`: what a reconciler is asked and answers
- `predicates`: which changes matter; `handlers`: what they ask for; `sources`: where they come from
- `controller`: `Controller`, the loop of workers; `builder`: `ControllerBuilder`, how one is described
- `timers`, `daemons`: functions that are called, or run, for every object
- `finalizers`: cleaning up before an object goes; `desired`: the objects that an owner should have

Metrics (`queue_metrics`, `controller_metrics`) have the names that client-go and controller-runtime use.
"""

from .builder import BuildError, ControllerBuilder, ManagerProtocol, register_controller_name
from .controller import Controller, ReconcileInfo, SyncTimeout, current_reconcile
from .daemons import DaemonController, DaemonStopTimeout, StopEvent, add_daemon
from .desired_state import DesiredState, EnsureResult
from .event_handlers import EventHandler, MapFunction, enqueue_mapped, enqueue_object, enqueue_owner
from .finalizers import Finalizers
from .object_reader import object_reader
from .predicates import (
    Predicate,
    annotations_changed,
    created,
    deleted,
    deletion_started,
    finalizers_changed,
    generation_changed,
    has_labels,
    in_namespaces,
    labels_changed,
    resource_version_changed,
    updated,
    where,
)
from .queue import LOW_PRIORITY, QueueItem, QueueShutDown, WorkQueue
from .rate_limiters import (
    BucketRateLimiter,
    ExponentialFailureRateLimiter,
    FastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
)
from .request import Reconcile, Request, Result, TerminalError
from .sources import ChannelSource, KindSource, Source
from .timers import TimerReconciler, add_timer

__all__ = [
    "LOW_PRIORITY",
    "BucketRateLimiter",
    "BuildError",
    "ChannelSource",
    "Controller",
    "ControllerBuilder",
    "DaemonController",
    "DaemonStopTimeout",
    "DesiredState",
    "EnsureResult",
    "EventHandler",
    "ExponentialFailureRateLimiter",
    "FastSlowRateLimiter",
    "Finalizers",
    "KindSource",
    "ManagerProtocol",
    "MapFunction",
    "MaxOfRateLimiter",
    "Predicate",
    "QueueItem",
    "QueueShutDown",
    "RateLimiter",
    "Reconcile",
    "ReconcileInfo",
    "Request",
    "Result",
    "Source",
    "StopEvent",
    "SyncTimeout",
    "TerminalError",
    "TimerReconciler",
    "WorkQueue",
    "add_daemon",
    "add_timer",
    "annotations_changed",
    "created",
    "current_reconcile",
    "deleted",
    "deletion_started",
    "enqueue_mapped",
    "enqueue_object",
    "enqueue_owner",
    "finalizers_changed",
    "generation_changed",
    "has_labels",
    "in_namespaces",
    "labels_changed",
    "object_reader",
    "register_controller_name",
    "resource_version_changed",
    "updated",
    "where",
]
