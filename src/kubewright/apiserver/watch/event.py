"""`WatchCacheEvent`: one event of a resource, encoded once per representation and shared by its watchers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.apiserver.encoding.representation import Representation
from kubewright.apiserver.resources.stored_objects import UndecodableObject
from kubewright.storage.contract import StorageEvent

if TYPE_CHECKING:
    from kubewright.api.errors import APIError
    from kubewright.apiserver.rest.selection import Selection


class WatchCacheEvent:
    """One event, with its encoded forms and selectable fields."""

    __slots__ = ("_new", "_old", "at", "encoded", "error", "event", "name", "namespace", "type")

    def __init__(self, event: StorageEvent, namespace: str, name: str, at: float) -> None:
        self.event = event
        self.at = at
        self.error: APIError | None = None
        """Set if the value, of a deletion the last one, cannot be decoded."""
        self.namespace = namespace
        self.name = name
        if event.type == "delete":
            self.type = "DELETED"
        else:
            self.type = "ADDED" if event.previous is None else "MODIFIED"
        self.encoded: dict[tuple[Representation, str], bytes] = {}
        self._new: Any = None
        self._old: Any = None

    @property
    def size(self) -> int:
        """Bytes of the objects of the event."""
        previous = self.event.previous
        return len(self.event.value or b"") + (len(previous.value) if previous is not None else 0)

    def release_encoded(self) -> None:
        """Discard encoded forms: all watchers have received them."""
        self.encoded.clear()
        self._new = self._old = None

    def selected(self, selection: Selection, representation: Representation) -> str:
        """Return the event type for a selection; empty if it does not match."""
        event = self.event
        now = before = False
        if event.value is not None:
            if self._new is None:
                self._new = selection.selectable(event.value)
            now = selection.matches(self._new)
        if event.previous is not None:
            if self._old is None:
                self._old = selection.selectable(event.previous.value)
            try:
                before = selection.matches(self._old)
            except (msgspec.DecodeError, UnicodeDecodeError):
                before = False  # watches have ended with the event of the previous value
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    async def selected_in_version(self, selection: Selection, representation: Representation) -> str:
        """Return the event type for a selection of converted objects; empty if it does not match."""
        event = self.event
        previous = event.previous
        now = (
            event.value is not None
            and (await representation.select([(event.value, event.revision)], selection))[0]
        )
        try:
            before = (
                previous is not None
                and (await representation.select([(previous.value, previous.mod_revision)], selection))[0]
            )
        except UndecodableObject:
            before = False
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def source(self, type_: str) -> bytes:
        """Return the stored object that an event of this type contains: the new one, or the deleted one."""
        event = self.event
        if type_ == "DELETED" and event.previous is not None:
            return event.previous.value
        assert event.value is not None
        return event.value

    def bytes_for(self, representation: Representation, type_: str) -> bytes:
        """Return the encoded event, shared by all watchers of a representation."""
        key = (representation, type_)
        found = self.encoded.get(key)
        if found is None:
            source, revision = self.source(type_), self.event.revision
            if representation.direct:
                spliced = representation.splice(source, revision)
                if spliced is not None:
                    found = b'{"type":"%b","object":%b}\n' % (type_.encode(), spliced)
            if found is None:
                obj = representation.objects([(source, revision)])[0]
                found = representation.event(type_, obj)
            self.encoded[key] = found
        return found
