"""The ConfigMap `kube-system/extension-apiserver-authentication`.

It contains the CAs of clients and of the front proxy, and the front proxy's headers. Extension API servers
read it to authenticate forwarded requests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists, NotFound
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane.controllers.requests import Requests

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

PATH = "/api/v1/namespaces/kube-system/configmaps"
NAME = "extension-apiserver-authentication"


async def publish(server: APIServer, client_ca: bytes, front_proxy: Any) -> None:
    """Create or update the ConfigMap."""

    def listed(values: Any) -> str:
        return json.dumps(list(values), separators=(",", ":"))

    data = {
        "client-ca-file": client_ca.decode(),
        "requestheader-allowed-names": listed(front_proxy.allowed_names),
        "requestheader-client-ca-file": front_proxy.client_ca.decode(),
        "requestheader-extra-headers-prefix": listed(front_proxy.extra_prefixes),
        "requestheader-group-headers": listed(front_proxy.group_headers),
        "requestheader-uid-headers": listed(front_proxy.uid_headers),
        "requestheader-username-headers": listed(front_proxy.username_headers),
    }
    requests = Requests(server, SYSTEM, agent="kube-apiserver")
    try:
        live = await requests.get(f"{PATH}/{NAME}")
    except NotFound:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
        try:
            await requests.create(PATH, body)
        except AlreadyExists:
            return
        return
    if live.get("data") != data:
        await requests.update(f"{PATH}/{NAME}", {**live, "data": data})
