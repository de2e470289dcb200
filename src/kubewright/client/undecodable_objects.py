"""Find and delete stored objects that the API server cannot decode.

A list that includes such objects fails with `StoreReadError`, whose causes name their keys. They are deleted
with `ignoreStoreReadErrorWithClusterBreakingPotential`, which requires the verb
`unsafe-delete-ignore-read-errors`. kube-apiserver does both with the feature gate
AllowUnsafeMalformedObjectDeletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kubewright.api.errors import APIError, StoreReadError

from .rest.request import APIRequest

if TYPE_CHECKING:
    from .client import Client
    from .discovery.api_resource import APIResource

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_OPTIONS = {
    "kind": "DeleteOptions",
    "apiVersion": "v1",
    "ignoreStoreReadErrorWithClusterBreakingPotential": True,
}


@dataclass(frozen=True)
class UndecodableObject:
    """A stored object that the API server cannot decode."""

    key: str
    """The key in the store."""
    cause: str
    resource: APIResource
    namespace: str
    name: str


@dataclass(frozen=True)
class UndecodableObjects:
    """The result of `find_undecodable`."""

    objects: Sequence[UndecodableObject]
    unlisted: dict[str, str]
    """Resources that could not be listed, with the error."""
    truncated: Sequence[str]
    """Resources with more objects than the server names."""


async def find_undecodable(client: Client) -> UndecodableObjects:
    """List every resource of a server, metadata only, and return what cannot be decoded."""
    objects: list[UndecodableObject] = []
    unlisted: dict[str, str] = {}
    truncated: list[str] = []
    seen: set[tuple[str, str]] = set()
    for resource in await client.mapper.resources():
        identity = (resource.gvr.group, resource.plural)
        if "list" not in resource.verbs or identity in seen:
            continue
        seen.add(identity)
        request = APIRequest("list", "GET", resource.path())
        request.headers["Accept"] = _METADATA
        named = str(resource.gvr.group_resource)
        try:
            await client.rest.send(request)
        except StoreReadError as error:
            found = [each for each in error.causes if each.get("field")]
            objects += [_object(resource, each["field"], each.get("message") or "") for each in found]
            if len(found) < len(error.causes):
                truncated.append(named)
        except APIError as error:
            unlisted[named] = error.message
    return UndecodableObjects(objects, unlisted, truncated)


async def delete_undecodable(client: Client, target: UndecodableObject) -> None:
    """Delete an object without finalizers, preconditions and admission; raises `APIError`."""
    path = target.resource.path(target.namespace, target.name)
    request = APIRequest("delete", "DELETE", path, body=msgspec.json.encode(_OPTIONS))
    request.headers["Content-Type"] = "application/json"
    await client.rest.send(request)


def _object(resource: APIResource, key: str, message: str) -> UndecodableObject:
    parts = key.split("/")
    namespace = parts[-2] if resource.namespaced and len(parts) > 1 else ""
    cause = message.rpartition("AdditionalErrorMsg: ")[2]
    return UndecodableObject(key, cause, resource, namespace, parts[-1])
