"""The webhooks of a server, as its configurations stand now.

Configurations are read from storage when one of them has changed, and only then. A configuration that a
client has stored is in force for the very next request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from .hook import Hook

if TYPE_CHECKING:
    from kubewright.apiserver import APIServer, ResourceStore
    from kubewright.apiserver.watch.cache import WatchCacheEvent


class HookIndex:
    """Every webhook of one kind of configuration, in the order in which they are called."""

    def __init__(self, server: APIServer, plural: str) -> None:
        store = server.store("admissionregistration.k8s.io", plural)
        if store is None:
            raise ValueError(f"the server does not serve {plural}.admissionregistration.k8s.io")
        self._store: ResourceStore = store
        self._hooks: Sequence[Hook] = ()
        self._read: dict[str, tuple[int, Sequence[Hook]]] = {}
        self._revision = -1
        self._heard = 0
        store.watch_cache.listeners.append(self._hear)

    def _hear(self, change: WatchCacheEvent) -> None:
        self._heard = change.event.revision

    @property
    def fresh(self) -> bool:
        """Whether nothing was written since the configurations were read."""
        return self._revision >= self._heard and self._revision >= self._store.written

    @property
    def quiet(self) -> bool:
        """Whether there is certainly no webhook."""
        return not self._hooks and self.fresh

    async def hooks(self) -> Sequence[Hook]:
        """All webhooks, by the name of their configuration and their place in it."""
        if not self.fresh:
            page = await self._store.storage.list(self._store.prefix)
            read = {}
            for item in page.items:
                known = self._read.get(item.key)
                if known is None or known[0] != item.mod_revision:
                    known = (item.mod_revision, _hooks_of(item.value))
                read[item.key] = known
            self._read = read
            self._hooks = [hook for key in sorted(read) for hook in read[key][1]]
            self._revision = page.revision
        return self._hooks


def _hooks_of(value: bytes) -> list[Hook]:
    configuration = msgspec.json.decode(value)
    name = configuration["metadata"]["name"]
    counts: dict[str, int] = {}
    hooks = []
    for declared in configuration.get("webhooks") or ():
        position = counts.get(declared["name"], 0)
        counts[declared["name"]] = position + 1
        hooks.append(Hook.of(declared, name, position))
    return hooks
