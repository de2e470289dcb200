"""The writes of this client that the watch of an informer has not delivered yet.

The response to a write arrives before, after or without its watch event, and a delayed watch can deliver
versions from before the write. `OwnWrites` has what an informer needs to keep its store correct meanwhile:

- `deleted`: objects that the server has deleted for this client, so that no delayed event stores them again;
- `floors`: revisions of removed objects, up to which no version is stored again;
- `expected`: versions whose content only the watch has, so that readers wait for them;
- `undelivered`: revisions that the watch has to deliver. If one is missing for too long, because of a faulty
  server or proxy, the revisions of the informer cannot be trusted.

All are discarded when the watch has delivered a later revision.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from kubewright.cache.stores.store import ObjectKey

SeenNames = dict[str, set[str]]
"""Names by namespace. The strings are those of the store: keys of their own would double its memory peak."""

MAX_UNSEEN_DELETIONS = 256
UNDELIVERED_SECONDS = 30.0
"""How long the watch may take to deliver a write of this client while it delivers other changes."""
_MAX_REVISIONS = 512

current_writer: ContextVar[Any] = ContextVar("kubewright_current_writer", default=None)
"""What the current task writes for: the name of a controller and its request, or `None`."""


class _Expectation(NamedTuple):
    """A version of an object that the watch has yet to deliver."""

    revision: int
    resource_version: str
    by_progress: bool
    """Whether it is met once the watch as a whole has reached the revision."""


class OwnWrites:
    """The writes of this client to the objects of one informer."""

    __slots__ = (
        "_delivered",
        "_delivered_deletions",
        "_unseen_deletions",
        "deleted",
        "expected",
        "floors",
        "revisions",
        "undelivered",
    )

    def __init__(self, delivered: Callable[[str], int]) -> None:
        """`delivered` returns the revision up to which the watch of a namespace has delivered all changes."""
        self._delivered = delivered
        self.revisions: dict[int, Any] = {}
        """Revisions of the last writes of this process, with their `current_writer`."""
        self.deleted: dict[str, tuple[ObjectKey, int | None]] = {}
        """Deletions that the watch has not delivered: uid to key and last known revision."""
        self._unseen_deletions: deque[str] = deque()
        self._delivered_deletions: dict[str, None] = {}
        """Objects whose deletion the watch has delivered last, by uid."""
        self.floors: dict[ObjectKey, int] = {}
        """Removed objects: versions up to this revision must not be stored again."""
        self.expected: dict[ObjectKey, _Expectation] = {}
        self.undelivered: dict[tuple[str, int], float] = {}
        """Writes that the watch has not delivered: namespace and revision to time."""

    def add_revision(self, revision: int) -> None:
        """Remember the revision of a write; only the last ones are."""
        self.revisions[revision] = current_writer.get()
        if len(self.revisions) > _MAX_REVISIONS:
            del self.revisions[next(iter(self.revisions))]

    # Delivery

    def require_delivery(self, namespace: str, revision: int) -> None:
        """Remember that the watch has to deliver a revision."""
        self.undelivered[namespace, revision] = time.monotonic()

    def has_lost_write(self, namespace: str) -> bool:
        """Whether the watch of a namespace, or of all, has not delivered a write for too long."""
        latest = time.monotonic() - UNDELIVERED_SECONDS
        for key, written in list(self.undelivered.items()):
            if key[1] <= self._delivered(key[0]):
                del self.undelivered[key]
            elif namespace in ("", key[0]) and written < latest:
                return True
        return False

    def discard_delivered(self) -> None:
        """Discard floors and expectations after the watch has delivered more."""
        if self.floors:
            for key in [key for key, floor in self.floors.items() if floor <= self._delivered(key.namespace)]:
                del self.floors[key]
        if self.expected:
            met = [
                key
                for key, each in self.expected.items()
                if each.by_progress and each.revision <= self._delivered(key.namespace)
            ]
            for key in met:
                del self.expected[key]

    def clear(self) -> None:
        """Discard all that is compared with revisions, after the server has started a new history."""
        self.deleted.clear()
        self._unseen_deletions.clear()
        self._delivered_deletions.clear()
        self.floors.clear()
        self.expected.clear()
        self.undelivered.clear()

    # Removed objects

    def add_deletion(self, uid: str, key: ObjectKey, revision: int | None) -> None:
        """Prevent a delayed watch from storing a deleted object again.

        The watch will deliver the deletion of an object that was stored. For one that was not, it may have
        done so already, or may still deliver its creation; and with a selector, objects can leave the watch
        several times. Of those, only the last deletions are remembered.
        """
        if uid in self._delivered_deletions:
            return  # nothing is delayed; a version that follows is that of a restored backup
        self.deleted[uid] = (key, revision)
        if revision is None:
            self._unseen_deletions.append(uid)
            if len(self._unseen_deletions) > MAX_UNSEEN_DELETIONS:
                self.deleted.pop(self._unseen_deletions.popleft(), None)

    def confirm_deletion(self, uid: str) -> None:
        """Forget a deletion that the watch has delivered; the response to the request may follow."""
        if self.deleted.pop(uid, None) is None:
            self._delivered_deletions[uid] = None
            if len(self._delivered_deletions) > MAX_UNSEEN_DELETIONS:
                del self._delivered_deletions[next(iter(self._delivered_deletions))]

    def confirm_deletions(self, seen: SeenNames, namespace: str, revision: int) -> None:
        """Forget deletions that a complete state of this revision confirms."""
        for uid, (key, known) in list(self.deleted.items()):
            if (
                namespace in ("", key.namespace)
                and key.name not in seen.get(key.namespace, ())
                and known is not None
                and known <= revision
            ):
                del self.deleted[uid]

    def raise_floor(self, key: ObjectKey, revision: int) -> None:
        """Reject older versions of a removed object from a delayed watch or response."""
        if revision > self._delivered(key.namespace):
            self.floors[key] = max(revision, self.floors.get(key, 0))

    # Expected versions

    def expect(self, key: ObjectKey, revision: int, resource_version: str = "") -> None:
        """Let readers wait for a version of an object.

        With a resource version it is that one, otherwise any from `revision` on.
        """
        by_progress = bool(resource_version and revision)
        self.expected[key] = _Expectation(revision, resource_version, by_progress)

    def meet_expectation(self, key: ObjectKey, revision: int, resource_version: str) -> bool:
        """Stop waiting for an object if this version is expected; return whether it is."""
        expected = self.expected.get(key)
        if expected is None or not (
            revision >= expected.revision
            if expected.revision
            else resource_version == expected.resource_version
        ):
            return False
        del self.expected[key]
        return True

    def has_pending(self, namespace: str | None = None, name: str | None = None) -> bool:
        """Whether the watch has yet to deliver expected versions of an object or namespace."""
        if not self.expected:
            return False
        if name is not None:
            return ObjectKey(namespace or "", name) in self.expected
        return not namespace or any(key.namespace == namespace for key in self.expected)
