"""Stored values that cannot be decoded: damaged, or encrypted with a key that is missing.

Such an object exists. Reads of it, and lists and watches that include it, fail with the errors of
kube-apiserver, which name its key; informers keep its last state. It is never treated as deleted.

`StoredObjects` has the result of the check of every value of one resource. The value of a revision does not
change, so it is checked once: when its event is received, or with the first list of the whole resource. Later
lists are served from stored bytes without another look at them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import APIError, InternalError, StoreReadError
from kubewright.storage.contract import KeyValue, Page, StorageEvent

if TYPE_CHECKING:
    from kubewright.api.gvk import GroupResource
    from kubewright.apiserver.watch.dispatcher import EventDispatcher

logger = logging.getLogger("kubewright.apiserver")

ENCRYPTED = b"k8s:enc:"
"""Beginning of an encrypted value, also in the stores of kube-apiserver."""

_SLICE = 256
"""Values that are checked before other tasks of the event loop run: about 0.5 ms."""
_MOST_CAUSES = 100
_MOST_NAMED = 3
_MOST_PROVIDER = 200


class _OwnerReference(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_OwnerReference] | None = None


class _Object(msgspec.Struct, rename="camel", gc=False):
    api_version: str
    kind: str
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode


def decode_error(value: bytes, kind: str) -> str | None:
    """Return why a stored value is not an object of a kind (empty: of any); `None` if it is one."""
    try:
        found = _decode(value).kind
        if not value.isascii():
            value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return str(error)
    return None if found == kind or not kind else f"the stored object has kind {found!r}"


class UndecodableObject(InternalError):
    """The response to a request for an object that cannot be decoded."""

    def __init__(self, key: str, revision: int, cause: str) -> None:
        text = (
            f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: {cause}"
        )
        super().__init__(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
        self.key = key
        self.revision = revision
        self.cause = cause

    def copy(self) -> UndecodableObject:
        """Return an equal error to raise; one that is kept would keep the frames that it passed."""
        return UndecodableObject(self.key, self.revision, self.cause)


class UndecodableObjects(StoreReadError):
    """The response to a list that includes objects that cannot be decoded."""

    def __init__(self, resource: GroupResource, objects: Iterable[UndecodableObject]) -> None:
        self.objects = list(objects)
        causes: list[dict[str, Any]] = [
            {
                "reason": "UnexpectedServerResponse",
                "message": each.details["causes"][0]["message"],
                "field": each.key,
            }
            for each in self.objects[:_MOST_CAUSES]
        ]
        if len(self.objects) > _MOST_CAUSES:
            causes.append(
                {"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"}
            )
        named = ", ".join(each.key for each in self.objects[:_MOST_NAMED])
        if len(self.objects) > _MOST_NAMED:
            named += f" and {len(self.objects) - _MOST_NAMED} more"
        # kube-apiserver names the keys only in the causes, which kubectl does not show.
        super().__init__(
            f"failed to read one or more {resource} from the storage: {named}",
            details={
                "name": "list",
                **({"group": resource.group} if resource.group else {}),
                "kind": resource.resource,
                "causes": causes,
            },
        )


class StoredObjects:
    """Which stored values of one resource cannot be decoded."""

    def __init__(
        self,
        dispatcher: EventDispatcher,
        resource: GroupResource,
        kind: str,
        prefix: str,
        *,
        encrypted: bool = False,
    ) -> None:
        self.undecodable: dict[str, UndecodableObject] = {}
        """By key: what is known now."""
        self.errors = 0
        """How many values could not be decoded since the start."""
        self._dispatcher = dispatcher
        self._resource = resource
        self._kind = kind
        self._prefix = prefix
        self._encrypted = encrypted
        """Whether storage returns a value as it is stored if it cannot be decrypted, which can change."""
        self._since = dispatcher.revision
        """Events after this revision are received."""
        self._checked = 0
        """All values of this revision are checked; 0: none. Later values are checked with their event."""

    @property
    def is_checked(self) -> bool:
        """Whether all values of the resource are checked."""
        return self._checked > 0

    @property
    def can_check_all(self) -> bool:
        """Whether not all values are checked, and a list of the resource would check them."""
        return not self._checked and self._dispatcher.running

    def reset(self, revision: int) -> None:
        """Events up to `revision` were missed: check all values again."""
        self._since = revision
        self._checked = 0

    def check(self, key: str, value: bytes, revision: int) -> UndecodableObject | None:
        """Check a value and record the result; values with an older revision than a known one are ignored."""
        known = self.undecodable.get(key)
        cause = decode_error(value, self._kind)
        if cause is None:
            if known is not None and known.revision <= revision:
                del self.undecodable[key]
            return None
        if known is not None and known.revision == revision:
            return known
        error = self._error(key, value, revision, cause)
        if known is None or known.revision < revision:
            self.undecodable[key] = error
            self.errors += 1
            logger.error(
                "stored object cannot be decoded",
                extra={"resource": str(self._resource), "key": key, "error": error.cause},
            )
        return error

    def check_event(self, event: StorageEvent) -> APIError | None:
        """Check the value of an event; of a deletion, the last one."""
        if event.value is not None:
            return self.check(event.key, event.value, event.revision)
        known = self.undecodable.pop(event.key, None)
        previous = event.previous
        if known is None and previous is not None:
            cause = decode_error(previous.value, self._kind)
            if cause is not None:
                known = self._error(event.key, previous.value, previous.mod_revision, cause)
        if known is None:
            return None
        return StoreReadError(f"saw a DELETED event, but object data is corrupt - {known.cause}")

    def _error(self, key: str, value: bytes, revision: int, cause: str) -> UndecodableObject:
        what = "object not decodable"
        if value.startswith(ENCRYPTED):
            what = "data from the storage is not transformable"
            cause = f"no key decrypts the value ({_provider(value)})"
        return UndecodableObject(key, revision, f"{what} revision={revision}: {cause}")

    def check_item(self, item: KeyValue) -> UndecodableObject | None:
        """Check a value that was read now."""
        if self._checked and item.mod_revision <= self._dispatcher.revision and not self._is_doubtful(item):
            return None
        return self.check(item.key, item.value, item.mod_revision)

    async def check_page(self, page: Page, *, complete: bool) -> list[UndecodableObject]:
        """Check the values of a page, unless that is done; `complete`: it has all of the resource."""
        current = self._dispatcher.revision
        if self._checked and self._checked <= page.revision:
            if page.revision <= current and not self.undecodable and not self._encrypted:
                return []
            unchecked = [
                item for item in page.items if item.mod_revision > current or self._is_doubtful(item)
            ]
        else:
            unchecked = page.items
        found = []
        for at in range(0, len(unchecked), _SLICE):
            if at:
                await asyncio.sleep(0)
            for item in unchecked[at : at + _SLICE]:
                error = self.check(item.key, item.value, item.mod_revision)
                if error is not None:
                    found.append(error)
        if complete and page.revision >= max(self._since, self._checked) and self._dispatcher.running:
            self._checked = self._checked or page.revision
            if self.undecodable:
                existing = {item.key for item in page.items}
                for key, error in list(self.undecodable.items()):
                    if key not in existing and error.revision <= page.revision:
                        del self.undecodable[key]
        return found

    def _is_doubtful(self, item: KeyValue) -> bool:
        return item.key in self.undecodable or (self._encrypted and not item.value.startswith(b"{"))

    def in_range(self, prefix: str) -> list[UndecodableObject]:
        """Return the known objects with a key prefix that cannot be decoded."""
        return [error for key, error in self.undecodable.items() if key.startswith(prefix)]

    def raise_for(self, errors: Sequence[UndecodableObject]) -> None:
        """Raise the error of a list that includes these objects, if there are any."""
        if errors:
            raise UndecodableObjects(self._resource, errors)


def _provider(value: bytes) -> str:
    """Return provider, version and key name of an encrypted value."""
    named = value[:_MOST_PROVIDER].split(b":")[2:5]
    return ":".join(part.decode("ascii", "backslashreplace") for part in named)
