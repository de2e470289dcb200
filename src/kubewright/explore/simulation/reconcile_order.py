"""`ReconcileOrder`: the start of each reconcile is a point, at which it can be deferred.

Requests in work queues become ready in an order that depends on watches, timers and rate limiters, and an
operator must not rely on it. At the point, a request that is about to be reconciled can be put back: all
requests that are ready are then reconciled before it. With a seed other than 0, this also happens at random.

It is an `Ownership`, which a controller asks before each reconcile.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.controller.controller import Controller
from kubewright.controller.queues.queue import LOW_PRIORITY
from kubewright.manager.observability.trace_feed import controllers_of

from .process_target import ProcessTarget, complete

if TYPE_CHECKING:
    from kubewright.manager.manager import Manager

    from .processes import OperatorProcess

DEFERRED_SECONDS = 0.0005
"""Virtual seconds until a deferred request is ready again: less than a request of another reconcile takes."""
RANDOM_DEFERRALS = 0.25
"""Probability that a request is deferred, with a seed other than 0."""


class ReconcileOrder:
    """Decides whether a controller starts a reconcile now."""

    def __init__(
        self,
        process: OperatorProcess,
        controller: Controller[Any],
        controllers: Sequence[Controller[Any]],
        order: random.Random | None,
    ) -> None:
        """`controllers` are all controllers of the process."""
        self._process = process
        self._controller = controller
        self._controllers = controllers
        self._order = order
        self._inner = controller.ownership

    def enter(self, request: Hashable) -> bool:
        """Return whether to reconcile a request now; otherwise it is dropped or comes later."""
        if self._inner is not None and not self._inner.enter(request):
            return False
        process, cluster = self._process, self._process.cluster
        event = cluster.record("reconcile", process.name, f"{self._controller.name} {request}")
        event.ready = sum(len(each.queue) for each in self._controllers if each.queue is not None)
        fault = cluster.fault_at(event)
        target = _ReconcileTarget(process, event)
        if fault is not None:
            complete(fault.before(target))
        elif self._order is not None and event.ready and self._order.random() <= RANDOM_DEFERRALS:
            target.is_deferred = True
        if not target.is_deferred:
            process.schedule.active.add((self._controller.name, request))
            return True
        assert self._controller.queue is not None
        # With another priority it would overtake requests of the initial list.
        self._controller.queue.add(request, after=DEFERRED_SECONDS, priority=LOW_PRIORITY)
        self.leave(request)
        return False

    def leave(self, request: Hashable) -> None:
        """Report that the reconcile of a request has ended."""
        self._process.schedule.active.discard((self._controller.name, request))
        if self._inner is not None:
            self._inner.leave(request)


class _ReconcileTarget(ProcessTarget):
    """A request that is about to be reconciled."""

    is_deferred = False

    async def defer(self) -> None:
        """Reconcile other requests first."""
        self.is_deferred = True


def control_order(process: OperatorProcess, manager: Manager) -> None:
    """Make the starts of all reconciles of a manager points, and their awaits if several can run."""
    randomness = process.cluster.randomness
    order = randomness.stream(f"order {process.name}") if randomness.seed else None
    process.controllers = controllers = controllers_of(manager.runnables)
    if sum(each.workers for each in controllers) > 1:
        process.schedule.enable()
    for each in controllers:
        each.ownership = ReconcileOrder(process, each, controllers, order)
