"""`NamespaceFeed`: the reflector of one namespace, or of all, and the part of an informer that it fills."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

from kubewright.api.errors import Expired
from kubewright.api.meta import revision_number
from kubewright.cache.reflectors.lister_watcher import ListerWatcher, ObjectEvent
from kubewright.cache.reflectors.reflector import Reflector
from kubewright.cache.stores.store import ObjectKey
from kubewright.client.backoff import Backoff

from .own_writes import SeenNames

if TYPE_CHECKING:
    from .informer_state import InformerState


class NamespaceFeed:
    """Receives the state and the changes of a namespace; a `ReflectorHandler`."""

    def __init__(
        self,
        informer: InformerState,
        namespace: str,
        source: ListerWatcher,
        *,
        rng: random.Random | None,
        backoff: Backoff | None,
        stream_initial_events: bool,
        optional: bool,
    ) -> None:
        self.namespace = namespace
        self.revision = 0
        """All changes up to this revision have been received."""
        self._informer = informer
        self._seen: SeenNames | None = None
        self.reflector = Reflector(
            informer.gvk.kind,
            source,
            self,
            namespace=namespace,
            rng=rng,
            backoff=backoff,
            stream_initial_events=stream_initial_events,
            optional=optional,
        )

    def begin(self) -> None:
        """Start to receive a complete state."""
        self._seen = defaultdict(set)

    def initial(self, event: ObjectEvent) -> None:
        """Receive one object of the state; after a loss, handlers are called for every object."""
        key = ObjectKey(event.namespace, event.name)
        assert self._seen is not None
        self._seen[key.namespace].add(key.name)
        if not self.reflector.is_reset:
            self._informer.call_joining(key, event)
        self._informer.receive_version(key, event, initial=True, repeat=self.reflector.was_lost)

    def replace(self, resource_version: str) -> bool:
        """The state is complete: remove objects that are not in it, unless they are newer."""
        seen, self._seen = self._seen or {}, None
        revision = revision_number(resource_version)
        informer = self._informer
        if revision and revision < self.revision:
            informer.forget_revisions(self.namespace)
            self.revision = 0
            return False
        for key, _ in informer.store.snapshot(self.namespace or None):
            if key.name not in seen.get(key.namespace, ()):
                informer.receive_deletion(key, revision)
        for key in list(informer.undecodable):
            if self.namespace in ("", key.namespace) and key.name not in seen.get(key.namespace, ()):
                informer.receive_deletion(key, revision)
        if informer.own_writes.deleted:
            informer.own_writes.confirm_deletions(seen, self.namespace, revision)
        if not self.reflector.is_reset:
            informer.finish_state()
        self.progress(resource_version)
        return True

    def event(self, event: ObjectEvent) -> None:
        """Receive one change."""
        key = ObjectKey(event.namespace, event.name)
        if event.type == "DELETED":
            if self._seen is not None:
                self._seen[key.namespace].discard(key.name)
            self._informer.receive_deletion(key, event.revision, event)
        else:
            if self._seen is not None:
                self._seen[key.namespace].add(key.name)
            self._informer.receive_version(key, event)

    def progress(self, resource_version: str) -> None:
        """All changes up to this version have been received; raises `Expired` if a write is missing."""
        self.revision = max(self.revision, revision_number(resource_version))
        informer = self._informer
        informer.report_progress()
        if informer.own_writes.undelivered and informer.own_writes.has_lost_write(self.namespace):
            informer.forget_revisions(self.namespace)
            self.revision = 0
            raise Expired("the watch has not delivered a write of this client")
