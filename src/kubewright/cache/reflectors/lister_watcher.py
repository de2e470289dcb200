"""`ListerWatcher`: what an informer needs of the place where objects are stored.

`ListWatch` sends requests to an API server; the control plane has one that reads its storage. A watch calls
its receiver instead of being iterated, so that a source in the same process delivers a change before it
reports to the writer that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Self

from kubewright.api.encoding.codec import ObjectHeader


class ObjectError(Protocol):
    """Why an object cannot be decoded."""

    def copy(self) -> Exception:
        """Return an exception to raise."""


class ObjectEvent(Protocol):
    """One version of one object: an item of a list or an event of a watch.

    The type is `ADDED`, `MODIFIED`, `DELETED` or, without an object, `BOOKMARK`.
    """

    @property
    def type(self) -> str:
        """What happened."""

    @property
    def namespace(self) -> str:
        """The namespace; empty for cluster-scoped objects."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def resource_version(self) -> str:
        """The resource version."""

    @property
    def revision(self) -> int:
        """The resource version as a number; 0 if it is not one and so cannot be ordered."""

    @property
    def raw(self) -> bytes:
        """The object, or the last state of a deleted one; empty if that is not known."""

    @property
    def header(self) -> ObjectHeader:
        """apiVersion, kind and metadata; raises `msgspec.DecodeError`."""

    @property
    def error(self) -> ObjectError | None:
        """Why the object cannot be read, if it cannot: readers that need it receive this error."""


class ObjectPage(Protocol):
    """A list, or one page of a list."""

    @property
    def resource_version(self) -> str:
        """The resource version of the list."""

    @property
    def continue_(self) -> str:
        """The token of the next page; empty on the last page."""

    def events(self) -> Iterable[ObjectEvent]:
        """Return the objects."""


class WatchReceiver(Protocol):
    """Receives the events of a watch."""

    def receive(self, batch: Sequence[ObjectEvent]) -> None:
        """Receive events in order."""

    def lose(self) -> None:
        """Changes are delayed: the received state may be out of date until it is received again."""


class ObjectWatch(Protocol):
    """An open watch; use it in `async with`."""

    async def deliver(self, receiver: WatchReceiver) -> None:
        """Call `receiver` for all events until the watch ends; `Expired` if the state must be listed."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...


class ListerWatcher(Protocol):
    """Lists and watches of one collection."""

    @property
    def has_delivered_writes(self) -> bool:
        """Whether the writes that this process knows of have been delivered; true if it knows of none."""

    def request_progress(self, revision: int) -> None:
        """Let the open watch report when it has reached a revision; servers do so without a request."""

    async def list(self, *, limit: int, continue_: str) -> ObjectPage:
        """Return one page, or everything with `limit` 0; the first page is the latest state."""

    async def watch(
        self, *, resource_version: str, initial_events: bool, timeout_seconds: int, idle_timeout: float
    ) -> ObjectWatch:
        """Watch changes after a resource version, or the state followed by changes."""
