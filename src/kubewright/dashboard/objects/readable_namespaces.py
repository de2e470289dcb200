"""Find out where the user of a client can list a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.api.errors import APIError
from kubewright.client.errors import ConnectionFailed, NoKindMatch

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.kind_types import AnyKind


async def find_readable_namespace(
    client: Client, kind: AnyKind, *, namespaced: bool
) -> tuple[str | None, str]:
    """Return where a kind can be listed, and the error if it cannot.

    `""` stands for all namespaces, then the namespace of the client is tried; `None` means nowhere.
    """
    own = client.options.namespace
    message = ""
    for namespace in ("", own) if namespaced and own else ("",):
        try:
            await client.list_raw(kind, namespace=namespace or None, limit=1)
            return namespace, ""
        except (APIError, NoKindMatch) as error:
            message = getattr(error, "message", str(error))
            if not isinstance(error, APIError) or error.status_code != 403:
                break
        except (ConnectionFailed, TimeoutError):
            return "", ""  # a reflector retries
    return None, message
