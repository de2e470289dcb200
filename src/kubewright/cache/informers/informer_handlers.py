"""`InformerHandlers`: the event handlers of an informer, and their resyncs.

A handler is called for each change, in order, and first for all existing objects. Handlers that need objects
of which the store has only metadata receive the existing ones from the next list: until then they *join*. An
exception in a handler is logged and counted, and does not affect the others.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from traceback import format_exception_only

from kubewright.cache.stores.store import CacheEntry, ObjectChange, ObjectKey, Store
from kubewright.tracebacks import location_of, trim_traceback

from .resync import Resync, check_resync

logger = logging.getLogger(__name__)

ResourceEventHandler = Callable[[ObjectChange], None]
"""Called synchronously for each change, in order. It must be fast: put the key in a queue."""


class InformerHandlers:
    """The handlers of one informer."""

    def __init__(
        self,
        kind: str,
        store: Store,
        *,
        resync: float,
        rng: random.Random | None,
        report_failure: Callable[[str], None],
    ) -> None:
        """`resync`: the period of handlers that are added without one."""
        self._kind = kind
        self._store = store
        self._period = check_resync(resync)
        self._rng = rng
        self._report_failure = report_failure
        self._handlers: tuple[ResourceEventHandler, ...] = ()
        self._resyncs: list[tuple[ResourceEventHandler, Resync]] = []
        self._started = False
        self.joining: tuple[ResourceEventHandler, ...] = ()
        """Handlers that receive the existing objects from the next list."""

    def start(self) -> None:
        """Start the resyncs."""
        self._started = True
        for _, resync in self._resyncs:
            resync.start()

    def stop(self) -> None:
        """Stop the resyncs."""
        self._started = False
        for _, resync in self._resyncs:
            resync.stop()

    def add(self, handler: ResourceEventHandler, resync: float | None) -> None:
        """Add a handler, and call it for all stored objects."""
        period = self._period if resync is None else check_resync(resync)
        for key, entry in self._store.snapshot():
            self._call(handler, ObjectChange(key, None, entry, initial=True))
        self._handlers += (handler,)
        if period:
            resyncs = Resync(self._store, partial(self._call, handler), period, self._rng)
            self._resyncs.append((handler, resyncs))
            if self._started:
                resyncs.start()

    def remove(self, handler: ResourceEventHandler) -> None:
        """Stop calling a handler; `ValueError` if it was not added."""
        if handler in self.joining:
            self.joining = tuple(each for each in self.joining if each != handler)
            return
        handlers = list(self._handlers)
        handlers.remove(handler)
        self._handlers = tuple(handlers)
        for position, (each, resync) in enumerate(self._resyncs):
            if each == handler:
                resync.stop()
                del self._resyncs[position]
                break

    def call_joining(self, key: ObjectKey, entry: CacheEntry) -> None:
        """Call the handlers that join, for an object of a list."""
        for handler in self.joining:
            self._call(handler, ObjectChange(key, None, entry, True))

    def finish_joining(self) -> None:
        """Call the handlers that joined during a list for changes from now on."""
        self._handlers += self.joining
        self.joining = ()

    def dispatch(self, change: ObjectChange) -> None:
        """Call all handlers."""
        for handler in self._handlers:
            try:
                handler(change)
            except Exception as error:
                self._log_failure(error, change)

    def _call(self, handler: ResourceEventHandler, change: ObjectChange) -> None:
        try:
            handler(change)
        except Exception as error:
            self._log_failure(error, change)

    def _log_failure(self, error: Exception, change: ObjectChange) -> None:
        self._report_failure("handler")
        trimmed = trim_traceback(error)
        logger.error(
            "event handler failed",
            exc_info=trimmed,
            extra={
                **location_of(trimmed[2]),
                **change.key.log_fields(self._kind),
                "error": "".join(format_exception_only(error)).strip(),  # also if str(error) raises
            },
        )
