"""Versions of the objects that are looked at, from the moment they are first requested.

Each requested object has a watch of its own, which ends when the object has not been requested for some
minutes, or when more recent ones need its place. Versions are stored without managed fields and without the
values of Secrets.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import ObjectHeader, loads
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.redaction import redact_secret
from kubewright.api.values.times import monotonic_time
from kubewright.background import run_forever
from kubewright.cache.reflectors.list_watch import ListWatch
from kubewright.cache.reflectors.lister_watcher import ObjectEvent
from kubewright.cache.reflectors.reflector import Reflector

if TYPE_CHECKING:
    from kubewright.client import Client

MAX_OBJECTS: Final = 32
MAX_VERSIONS: Final = 50
MAX_BYTES: Final = 1 << 19
"""Size of the versions of one object."""
IDLE_SECONDS: Final = 600.0

ObjectPath = tuple[GroupVersionKind, str, str]
"""Kind, namespace and name."""


class Histories:
    """The histories of the objects that were requested last."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = monotonic_time) -> None:
        self._client = client
        self._clock = clock
        self._histories: OrderedDict[ObjectPath, _History] = OrderedDict()

    async def get(self, kind: GroupVersionKind, namespace: str, name: str) -> dict[str, Any]:
        """Return the versions of an object, and watch it from now on. Raises the error of the first list."""
        key = (kind, namespace, name)
        await self._drop_idle()
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = _History(self._client, kind, namespace, name)
            while len(self._histories) > MAX_OBJECTS:
                _, oldest = self._histories.popitem(last=False)
                await oldest.stop()
        self._histories.move_to_end(key)
        history.used_at = self._clock()
        await history.reflector.attempted.wait()
        if history.reflector.last_error is not None and not history.versions:
            error = history.reflector.last_error
            self._histories.pop(key, None)
            await history.stop()
            raise error
        return history.describe()

    async def stop(self) -> None:
        """Stop all watches."""
        histories = list(self._histories.values())
        self._histories.clear()
        await asyncio.gather(*(each.stop() for each in histories))

    async def _drop_idle(self) -> None:
        limit = self._clock() - IDLE_SECONDS
        for key, history in list(self._histories.items()):
            if history.used_at < limit:
                del self._histories[key]
                await history.stop()


class _History:
    """The versions of one object."""

    def __init__(self, client: Client, kind: GroupVersionKind, namespace: str, name: str) -> None:
        source = ListWatch(client, kind, namespace=namespace, fields={"metadata.name": name})
        self.reflector = Reflector(kind.kind, source, self, namespace=namespace)
        self.versions: deque[dict[str, Any]] = deque()
        self.used_at = 0.0
        self._kind = kind
        self._sizes: deque[int] = deque()
        self._managers: dict[tuple[str, ...], Any] = {}
        self._truncated = False
        self._received = False
        self._task = run_forever(self.reflector.run, name=f"dashboard history {name}", required=False)

    async def stop(self) -> None:
        """End the watch."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def describe(self) -> dict[str, Any]:
        """Return the versions, oldest first."""
        return {
            "watching": not self._task.done() and self.reflector.last_error is None,
            "truncated": self._truncated,
            "versions": list(self.versions),
        }

    def begin(self) -> None:
        """Start to receive the state."""
        self._received = False

    def initial(self, event: ObjectEvent) -> None:
        """Store the object if it has changed."""
        self._received = True
        self._add("MODIFIED" if self.versions else "ADDED", event.raw, event.header)

    def replace(self, resource_version: str) -> bool:
        """Store a deletion that happened while the watch was interrupted."""
        last = self.versions[-1] if self.versions else None
        if not self._received and last is not None and last["type"] != "DELETED":
            version = {**last, "type": "DELETED", "time": time.time() * 1000, "managers": []}
            self._append(version, 0)
        return True

    def event(self, event: ObjectEvent) -> None:
        """Store a change."""
        self._add(event.type, event.raw, event.header)

    def progress(self, resource_version: str) -> None:
        """Nothing depends on the position of the watch."""

    def _add(self, type_: str, raw: bytes, header: ObjectHeader) -> None:
        version = header.metadata.resource_version or ""
        last = self.versions[-1] if self.versions else None
        if last is not None and last["resourceVersion"] == version and type_ != "DELETED":
            return
        obj: dict[str, Any] = loads(raw)
        obj = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **obj}
        managed = (obj.get("metadata") or {}).pop("managedFields", None) or []
        entries = {_entry_key(each): each for each in managed if isinstance(each, dict)}
        changed = [_manager(entry) for key, entry in entries.items() if self._managers.get(key) != entry]
        self._managers = entries
        self._append(
            {
                "resourceVersion": version,
                "time": time.time() * 1000,
                "type": type_,
                "managers": [] if type_ == "DELETED" else list(dict.fromkeys(changed)),
                "object": redact_secret(obj),
            },
            len(raw),
        )

    def _append(self, version: dict[str, Any], size: int) -> None:
        self.versions.append(version)
        self._sizes.append(size)
        while len(self.versions) > 1 and (len(self.versions) > MAX_VERSIONS or sum(self._sizes) > MAX_BYTES):
            self.versions.popleft()
            self._sizes.popleft()
            self._truncated = True


def _entry_key(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(each) or "") for each in ("manager", "operation", "apiVersion", "subresource"))


def _manager(entry: dict[str, Any]) -> str:
    subresource = entry.get("subresource")
    name = str(entry.get("manager") or "unknown")
    return f"{name} ({subresource})" if subresource else name
