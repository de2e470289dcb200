"""`ClusterReader`: the objects of the API server that containers use."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupVersion, GroupVersionResource
from kubewright.api.unstructured import Unstructured
from kubewright.workloads.nodes.objects import Object

if TYPE_CHECKING:
    from kubewright.client.client import Client

DataKind = Literal["configmap", "secret"]
CORE: Final = GroupVersion("", "v1")
CLAIMS: Final = CORE.resource("persistentvolumeclaims")
VOLUMES: Final = CORE.resource("persistentvolumes")
_SERVICES: Final = CORE.resource("services")
_ACCOUNTS: Final = CORE.resource("serviceaccounts")
_ENDPOINTS: Final = CORE.resource("endpoints")
_RESOURCES: Final[dict[DataKind, GroupVersionResource]] = {
    "configmap": CORE.resource("configmaps"),
    "secret": CORE.resource("secrets"),
}


class MissingReference(LookupError):
    """A pod refers to an object or a key that does not exist; the message is that of a kubelet."""


class ServiceAccountToken(NamedTuple):
    """A token and the seconds that it is valid for."""

    token: str
    lifetime: float


class ClusterReader:
    """Reads objects with the identity of the kubelet; nothing is cached."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def data(self, kind: DataKind, namespace: str, name: str) -> dict[str, bytes]:
        """Return the data of a ConfigMap or Secret; raise `MissingReference`."""
        try:
            found = await self._client.get(_RESOURCES[kind], name, namespace=namespace)
        except NotFound:
            raise MissingReference(f'{kind} "{name}" not found') from None
        if kind == "secret":
            return {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}
        binary = {key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}
        return {**{key: text.encode() for key, text in (found.get("data") or {}).items()}, **binary}

    async def services(self, namespace: str) -> list[Object]:
        """Return the services of a namespace."""
        return [each.raw for each in await self._client.list(_SERVICES, namespace=namespace)]

    async def api_server(self) -> tuple[str, str] | None:
        """Return host and port of the API server, from the endpoints of its service."""
        try:
            found = await self._client.get(_ENDPOINTS, "kubernetes", namespace="default")
        except NotFound:
            return None
        for subset in found.get("subsets") or ():
            for address in subset.get("addresses") or ():
                for port in subset.get("ports") or ():
                    return str(address["ip"]), str(port["port"])
        return None

    async def volume_path(self, namespace: str, claim: str) -> str | None:
        """Return the local path of the volume of a claim, if it has one; raise `MissingReference`."""
        try:
            found = await self._client.get(CLAIMS, claim, namespace=namespace)
        except NotFound:
            raise MissingReference(f'persistentvolumeclaim "{claim}" not found') from None
        name = (found.get("spec") or {}).get("volumeName")
        if not name:
            raise MissingReference(f'persistentvolumeclaim "{claim}" is not bound')
        volume = await self._client.get(VOLUMES, name)
        spec = volume.get("spec") or {}
        source = spec.get("hostPath") or spec.get("local") or {}
        return source.get("path")

    async def request_token(
        self, pod: Object, account: str, audience: str, seconds: int
    ) -> ServiceAccountToken:
        """Return a token of a service account that is bound to a pod."""
        metadata = pod["metadata"]
        request = Unstructured(
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [audience] if audience else [],
                    "expirationSeconds": seconds,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            }
        )
        tokens = self._client.subresource("token", _ACCOUNTS, account, namespace=metadata["namespace"])
        try:
            found = await tokens.create(request)
        except NotFound as error:
            raise MissingReference(f"failed to fetch token: {error}") from None
        return ServiceAccountToken(found["status"]["token"], float(found["spec"]["expirationSeconds"]))
