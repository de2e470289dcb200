"""`Informer`: one kind, kept in sync by reflectors, with event handlers and the writes of this client.

An informer runs one reflector per namespace it covers; all of them fill one store. Its objects come from a
`ListerWatcher`: requests to an API server, or the storage of a control plane. Handlers are called for each
change, in the order of revisions. After a lost watch the informer is not current (`is_current`) until it has
listed again; `wait_for_revision` is for readers that must not act on an older state. `InformerState` has the
objects, and the writes of this client that the watch has not delivered yet.

A metadata informer becomes one of full objects when those are needed (`upgrade`): it keeps its handlers and
its entries, and the bytes are replaced without calling handlers. An object that cannot be decoded is reported
(`undecodable`) and keeps its last version: it is neither changed nor deleted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kubewright.api.gvk import GroupVersionKind
from kubewright.background import run_forever
from kubewright.cache.reflectors.lister_watcher import ListerWatcher
from kubewright.cache.stores.store import ObjectChange, Store, strip_managed_fields
from kubewright.client.backoff import Backoff

from .informer_handlers import ResourceEventHandler
from .informer_state import InformerState
from .namespace_feed import NamespaceFeed
from .version_decoder import EntryForm, Transform

if TYPE_CHECKING:
    from kubewright.api.selectors.label_selectors import Selector


class Informer(InformerState):
    """The informer of one kind. A `Cache` creates and owns it; it also works alone, in one process."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        sources: Mapping[str, ListerWatcher],
        *,
        metadata_only: bool = False,
        labels: Selector | None = None,
        filtered_by_fields: bool = False,
        transform: Transform | None = strip_managed_fields,
        form: EntryForm | None = None,
        store: Store | None = None,
        resync: float = 0.0,
        rng: random.Random | None = None,
        backoff: Callable[[], Backoff] | None = None,
        stream_initial_events: bool = True,
        optional: bool = False,
    ) -> None:
        """`sources` are by namespace; the key `""` stands for all namespaces. `store` is an empty one.

        `form`: how objects are stored, by default as bytes to which `transform` was applied.
        `resync`: period in seconds of handlers that are added without one; 0: they get no resyncs.
        `backoff`: delays between failed requests, by default from 0.8 s to 30 s.
        `optional`: the informer of a kind that is not served is synced, and empty.
        """
        super().__init__(
            gvk,
            metadata_only=metadata_only,
            labels=labels,
            filtered_by_fields=filtered_by_fields,
            transform=transform,
            form=form,
            store=store,
            resync=resync,
            rng=rng,
        )
        self._rng = rng
        self._backoff = backoff
        self._stream_initial_events = stream_initial_events
        self._optional = optional
        self._feeds = self._create_feeds(sources)
        self._tasks: list[asyncio.Task[None]] = []

    def _create_feeds(self, sources: Mapping[str, ListerWatcher]) -> Sequence[NamespaceFeed]:
        return [
            NamespaceFeed(
                self,
                namespace,
                source,
                rng=self._rng,
                backoff=self._backoff() if self._backoff is not None else Backoff(rng=self._rng),
                stream_initial_events=self._stream_initial_events,
                optional=self._optional,
            )
            for namespace, source in sources.items()
        ]

    # Lifecycle

    def start(self) -> None:
        """Start the reflectors and the resyncs."""
        if not self._tasks:
            name = f"reflector {self.gvk.kind}"
            self._tasks = [run_forever(each.reflector.run, name=name) for each in self._feeds]
        self._handlers.start()

    async def stop(self) -> None:
        """Stop the reflectors and the resyncs; the store keeps its contents."""
        tasks = self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cancel(self) -> Sequence[asyncio.Task[None]]:
        """Stop without waiting; return the tasks that end."""
        self._handlers.stop()
        tasks, self._tasks = self._tasks, []
        for each in self._feeds:
            each.reflector.current.clear()
        for task in tasks:
            task.cancel()
        return tasks

    async def upgrade(self, sources: Mapping[str, ListerWatcher]) -> None:
        """Store full objects from now on; until `has_synced`, some entries may still be metadata."""
        if not self.metadata_only:
            return
        self.metadata_only = False
        self._upgrading = True
        revisions = {each.namespace: each.revision for each in self._feeds}
        was_running, previous = bool(self._tasks), self._feeds
        self._feeds = self._create_feeds(sources)
        for each in self._feeds:
            each.revision = revisions.get(each.namespace, 0)
        for each in previous:
            # Waiters of the previous reflectors check again, and then wait for the new ones.
            each.reflector.attempted.set()
            each.reflector.synced.set()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if was_running:
            self.start()

    def retain_objects(self) -> None:
        """Store full objects from now on, from sources that send them also to informers of metadata."""
        if self.metadata_only:
            self.metadata_only = False
            if len(self.store):
                self._upgrading = True
                self.relist()

    def relist(self) -> None:
        """List again; until then the informer is not current."""
        running, self._tasks = self._tasks, []
        for each in self._feeds:
            each.reflector.reset()
        for task in running:
            task.cancel()
        if running:
            self.start()

    @property
    def is_running(self) -> bool:
        """Whether the reflectors have been started."""
        return bool(self._tasks)

    @property
    def has_synced(self) -> bool:
        """Whether the initial state has been received."""
        return all(each.reflector.synced.is_set() for each in self._feeds)

    async def wait_for_sync(self) -> None:
        """Wait until the initial state has been received."""
        while not self.has_synced:
            for each in self._feeds:
                await each.reflector.synced.wait()

    @property
    def is_fresh(self) -> bool:
        """Whether it is current and has all writes that its sources know of."""
        for each in self._feeds:
            reflector = each.reflector
            if not (reflector.current.is_set() and reflector.source.has_delivered_writes):
                return False
        return True

    async def wait_until_current(self) -> None:
        """Wait until the state has been received, again if a watch was lost, and changes arrive."""
        while not self.is_current:
            for each in self._feeds:
                await each.reflector.current.wait()

    async def wait_for_first_attempt(self) -> None:
        """Wait until the initial state has been received or the first attempt failed; see `last_error`."""
        for each in self._feeds:
            await each.reflector.attempted.wait()

    @property
    def last_error(self) -> BaseException | None:
        """The error of a reflector that is currently failing, if any."""
        return next((each.reflector.last_error for each in self._feeds if each.reflector.last_error), None)

    def retry_now(self) -> None:
        """Retry failing reflectors now instead of after their backoff."""
        for each in self._feeds:
            each.reflector.retry_now()

    # Handlers

    def add_handler(
        self, handler: ResourceEventHandler, *, resync: float | None = None, needs_objects: bool = False
    ) -> None:
        """Call `handler` for every change, beginning with all stored objects, immediately.

        `resync`: seconds within which it is called again for every object, with the same entry as old and
        new; 0: never, `None`: the period of the informer. `needs_objects`: the entries of new versions have
        objects also if only their metadata is stored (`SharedEntry`); existing objects are listed again.
        """
        if needs_objects and (self.metadata_only or self._upgrading) and len(self.store):
            self._handlers.joining += (handler,)
            self.relist()
        else:
            self._handlers.add(handler, resync)

    def remove_handler(self, handler: ResourceEventHandler) -> None:
        """Stop calling a handler; `ValueError` if it was not added."""
        self._handlers.remove(handler)

    def resync(self) -> None:
        """Call every handler for every stored object now, with the same entry as old and new."""
        for key, entry in self.store.snapshot():
            self._dispatch(ObjectChange(key, entry, entry, initial=True))

    async def wait_for_revision(self, revision: int, *, namespace: str = "") -> None:
        """Wait until the store contains all changes up to a revision."""
        while self.revision(namespace) < revision:
            for each in self._feeds:
                each.reflector.source.request_progress(revision)
            if self.revision(namespace) < revision:
                await self._wait_for_progress()
