"""Why a request was queued: the changes, requeues and retries that led to a reconcile.

A `Cause` refers to the cached versions of the changed object and computes the changed fields when it is read,
so that a reconcile that does not read its causes pays almost nothing for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from kubewright.api.encoding.codec import loads
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.patch import merge_patch

MAX_CAUSES = 8
"""Number of causes of one request: the first ones and the latest."""
MAX_PATHS = 20
_IGNORED_PATHS = {"metadata.resourceVersion", "metadata.managedFields", "metadata.generation"}

Trigger = Literal["watch", "list", "resync", "own write", "source", "requeue", "retry"]
"""What queued a request: a watch event, the initial list, a resync, a write of this process, another source,
`Result(requeue_after=...)`, or the retry after an error."""


class Cause(msgspec.Struct, frozen=True, gc=False):
    """One reason for a reconcile; `str(cause)` is, for example, `Shop default/a updated: spec.size`."""

    source: Trigger
    kind: str = ""
    """The kind of the changed object; empty without a change."""
    change: ObjectChange | None = None
    own_writes: Mapping[int, Any] | None = None
    """Revisions of writes of this process, with their writers."""

    @property
    def trigger(self) -> Trigger:
        """What queued the request. The watch event of a write can arrive before the response to it."""
        change, own_writes = self.change, self.own_writes
        if own_writes and change is not None and change.new is not None and self.source == "watch":
            return "own write" if change.new.revision in own_writes else "watch"
        return self.source

    @property
    def writer(self) -> Any:
        """The controller and the request whose reconcile wrote the change; `None` if it was another one."""
        change, own_writes = self.change, self.own_writes
        if not own_writes or change is None or change.new is None or self.source != "watch":
            return None
        return own_writes.get(change.new.revision)

    @property
    def object(self) -> ObjectKey | None:
        """Namespace and name of the changed object."""
        return self.change.key if self.change is not None else None

    @property
    def operation(self) -> Literal["created", "updated", "deleted", ""]:
        """How the object changed; empty for the initial list, resyncs, requeues and retries."""
        change = self.change
        if change is None or self.trigger in ("list", "resync"):
            return ""
        if change.new is None:
            return "deleted"
        return "created" if change.old is None else "updated"

    @property
    def paths(self) -> tuple[str, ...]:
        """The changed fields of an updated object, such as `spec.size`; at most 20. Decodes both versions."""
        change = self.change
        if change is None or change.old is None or change.new is None or change.old is change.new:
            return ()
        found: list[str] = []
        _collect(merge_patch.diff(loads(change.old.raw), loads(change.new.raw)), "", found)
        return tuple(path for path in found if path not in _IGNORED_PATHS)[:MAX_PATHS]

    def __str__(self) -> str:
        if self.change is None:
            return self.trigger
        text = f"{self.kind} {self.change.key}"
        if self.operation:
            text += f" {self.operation}"
        if self.trigger != "watch":
            text += f" ({self.trigger})"
        paths = ",".join(self.paths)
        return f"{text}: {paths}" if paths else text


Causes = tuple[Cause, ...]
REQUEUE: Causes = (Cause("requeue"),)
RETRY: Causes = (Cause("retry"),)
SOURCE: Causes = (Cause("source"),)


def merge_causes(known: tuple[Any, ...], more: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the causes of a request that is queued again; above the limit, the latest replaces the last."""
    if not known or not more:
        return known or more
    if len(known) == 1 and known[0] is more[0]:
        return more
    merged = (*known, *more)
    return merged if len(merged) <= MAX_CAUSES else (*merged[: MAX_CAUSES - 1], merged[-1])


def describe_causes(causes: Causes) -> str:
    """Return causes for a log line."""
    return "; ".join(map(str, causes))


def _collect(change: Any, prefix: str, found: list[str]) -> None:
    for name, value in change.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            _collect(value, f"{path}.", found)
        else:
            found.append(path)
