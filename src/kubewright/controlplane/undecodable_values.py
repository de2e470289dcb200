"""Values in a store that are not objects of their resource, and the resource of a storage key.

Keys are `/registry/PLURAL/...` for built-in resources and `/registry/GROUP/PLURAL/...` for custom ones and
those of the groups whose storage prefix contains the group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kubewright.api.builtin.resources import resources
from kubewright.apiserver.resources.stored_objects import ENCRYPTED, decode_error
from kubewright.apiserver.server import STORAGE_PREFIX
from kubewright.storage.contract import Storage

from .builtins import storage_prefixes

_PAGE = 500


class UndecodableValue(NamedTuple):
    """A value that cannot be decoded, at a revision."""

    key: str
    revision: int
    cause: str


class FoundValues(NamedTuple):
    """The result of `find_undecodable_values`."""

    values: list[UndecodableValue]
    encrypted: list[str]
    """Keys of encrypted values in a storage that does not decrypt; they were not checked."""


async def find_undecodable_values(storage: Storage) -> FoundValues:
    """Read all objects of an open storage and return those that cannot be decoded.

    The kind is checked for built-in resources.
    """
    resource_of = resource_finder(STORAGE_PREFIX)
    kinds = {(row.gvk.group, row.plural): row.gvk.kind for row in resources()}
    found = FoundValues([], [])
    start: str | None = None
    while True:
        page = await storage.list(STORAGE_PREFIX, start=start, limit=_PAGE)
        for item in page.items:
            resource = resource_of(item.key)
            if resource is None or (resource not in kinds and "." not in resource[0]):
                continue  # a record of the control plane
            if not storage.decrypts and item.value.startswith(ENCRYPTED):
                found.encrypted.append(item.key)
                continue
            cause = decode_error(item.value, kinds.get(resource, ""))
            if cause is not None:
                if item.value.startswith(ENCRYPTED):
                    cause = "no key of the encryption configuration decrypts it"
                found.values.append(UndecodableValue(item.key, item.mod_revision, cause))
        if not page.more:
            return found
        start = page.items[-1].key + "\0"


def resource_finder(prefix: str) -> Callable[[str], tuple[str, str] | None]:
    """Return a function from a storage key to group and resource; `prefix` precedes all keys of resources."""
    builtin = storage_prefixes()

    def find(key: str) -> tuple[str, str] | None:
        if not key.startswith(prefix):
            return None
        first, _, rest = key[len(prefix) :].partition("/")
        found = builtin.get(first)
        if found is not None:
            return found
        return first, rest.partition("/")[0]

    return find
