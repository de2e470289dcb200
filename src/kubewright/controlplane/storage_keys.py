"""Group and resource of a storage key.

Keys are `/registry/PLURAL/...` for built-in resources and `/registry/GROUP/PLURAL/...` for custom ones and
those of the groups whose storage prefix contains the group.
"""

from __future__ import annotations

from collections.abc import Callable

from .builtins import storage_prefixes


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
