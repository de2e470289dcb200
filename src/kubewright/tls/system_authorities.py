"""The system's certificate authorities are read when a connection needs them, not when aiohttp is imported.

aiohttp creates two TLS contexts for its clients when it is imported, and each reads all authorities of the
system: a tenth of the CPU time of the start of a control plane, which rarely connects to a server whose
certificate they signed. `import_aiohttp` imports aiohttp with contexts that read them at their first
connection.
"""

from __future__ import annotations

import ssl
import sys
from typing import Any


class _UnreadAuthorities(ssl.SSLContext):
    """A context that becomes an ordinary one, with the authorities of the system, at its first connection."""

    def _read(self) -> None:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]
        self.set_default_verify_paths()

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Read the authorities and wrap the buffers of a connection."""
        self._read()
        return self.wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Read the authorities and wrap a socket."""
        self._read()
        return self.wrap_socket(*arguments, **options)


def _postpone(context: ssl.SSLContext) -> None:
    context.__class__ = _UnreadAuthorities


def import_aiohttp() -> None:
    """Import aiohttp, without reading the certificate authorities of the system."""
    if "aiohttp" in sys.modules:
        return
    # The method is inherited from a type in C: setting it here hides it, and deleting it uncovers it again.
    ssl.SSLContext.set_default_verify_paths = _postpone  # type: ignore[assignment]
    try:
        import aiohttp  # noqa: F401
    finally:
        del ssl.SSLContext.set_default_verify_paths
