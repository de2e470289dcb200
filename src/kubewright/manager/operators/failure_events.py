"""Warning events about failed functions, so that `kubectl describe` shows why an object is not ready."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from kubewright.api.errors import Conflict
from kubewright.api.owners import OwnerError
from kubewright.controller.failures import describe
from kubewright.manager.events import EventRecorder

REPEAT_SECONDS = 300.0
"""The same error of an object is recorded again after this time."""
_MAX_OBJECTS = 4096


class FailureEvents:
    """Records an event `ReconcileFailed` when the error of an object changes, and then every five minutes."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._last: OrderedDict[str, tuple[str, float]] = OrderedDict()

    async def watch(self, obj: Any, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await a call for an object; record an error before it is raised."""
        try:
            return await call()
        except (Conflict, OwnerError):
            # A conflict is retried with the new version; ownership conflicts are recorded by the context.
            raise
        except Exception as error:
            self._record(obj, error)
            raise

    def _record(self, obj: Any, error: Exception) -> None:
        text = describe(error).rstrip(": ")
        uid, now = obj.metadata.uid or "", asyncio.get_running_loop().time()
        last = self._last.pop(uid, None)
        if last is None or last[0] != text or now - last[1] >= REPEAT_SECONDS:
            self._recorder.event(obj, "Warning", "ReconcileFailed", text)
            last = (text, now)
        self._last[uid] = last
        if len(self._last) > _MAX_OBJECTS:
            self._last.popitem(last=False)
