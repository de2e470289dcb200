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

from .builder import BuildError, ControllerBuilder, ManagerLike, claim_name
from .controller import Controller, Reconciling, SyncTimeout, reconciling
from .daemons import Daemons, StillRunning, Stopped, add_daemon
from .desired import Changes, DesiredState
from .finalizers import Finalizers
from .handlers import Handler, Mapping, for_object, for_owner, mapped
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
from .queue import LOW_PRIORITY, QueueShutDown, Taken, WorkQueue
from .rate_limiters import BucketLimiter, ExponentialLimiter, FastSlowLimiter, MaxOf, RateLimiter
from .request import Reconcile, Request, Result, TerminalError
from .sources import ChannelSource, KindSource, Source
from .timers import Timer, add_timer

__all__ = [
    "LOW_PRIORITY",
    "BucketLimiter",
    "BuildError",
    "Changes",
    "ChannelSource",
    "Controller",
    "ControllerBuilder",
    "Daemons",
    "DesiredState",
    "ExponentialLimiter",
    "FastSlowLimiter",
    "Finalizers",
    "Handler",
    "KindSource",
    "ManagerLike",
    "Mapping",
    "MaxOf",
    "Predicate",
    "QueueShutDown",
    "RateLimiter",
    "Reconcile",
    "Reconciling",
    "Request",
    "Result",
    "Source",
    "StillRunning",
    "Stopped",
    "SyncTimeout",
    "Taken",
    "TerminalError",
    "Timer",
    "WorkQueue",
    "add_daemon",
    "add_timer",
    "annotations_changed",
    "claim_name",
    "created",
    "deleted",
    "deletion_started",
    "finalizers_changed",
    "for_object",
    "for_owner",
    "generation_changed",
    "has_labels",
    "in_namespaces",
    "labels_changed",
    "mapped",
    "object_reader",
    "reconciling",
    "resource_version_changed",
    "updated",
    "where",
]
