"""The ConfigMap `kube-system/extension-apiserver-authentication`.

It contains the CAs of clients and of the front proxy, and the front proxy's headers. Extension API servers
read it to authenticate forwarded requests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists
from kubewright.api.gvk import GroupResource
from kubewright.controlplane.in_process_clients import server_client

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.controlplane.configuration.plane_options import FrontProxy

CONFIG_MAPS = GroupResource("", "configmaps")
NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"


async def publish(server: APIServer, client_ca: bytes, front_proxy: FrontProxy) -> None:
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
    client = server_client(server)
    live = await client.get_or_none(CONFIG_MAPS, NAME, namespace=NAMESPACE)
    if live is None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
        try:
            await client.create(body, namespace=NAMESPACE)
        except AlreadyExists:
            return
    elif live.get("data") != data:
        await client.update({**live.raw, "data": data})
