"""The Service `kube-system/kube-dns` of a DNS server that runs beside the control plane, not in a pod.

Kubelets write its cluster IP to `/etc/resolv.conf` of pods, and kube-proxy forwards it to the server. An
existing Service that others manage, such as that of CoreDNS, is not changed.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Any, Final

from kubewright.api.core.v1 import Service
from kubewright.api.unstructured import Unstructured
from kubewright.client import Client

logger = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
NAME: Final = "kube-dns"
SLICE: Final = "kube-dns-kubewright"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
FIELD_MANAGER: Final = "kubewright-dns"
_LABELS: Final = {"k8s-app": NAME, MANAGED_BY: "kubewright"}
_PORTS: Final = (("dns", "UDP"), ("dns-tcp", "TCP"))


async def publish_dns_service(client: Client, *, cluster_ip: str, address: str, port: int) -> bool:
    """Write the Service and its endpoint; return whether pods can use it."""
    if ipaddress.ip_address(address).is_loopback:
        logger.warning("pods cannot reach cluster DNS on a loopback address", extra={"address": address})
        return False
    existing = await client.get_or_none(Service, NAME, namespace=NAMESPACE)
    if existing is not None and (existing.metadata.labels or {}).get(MANAGED_BY) != _LABELS[MANAGED_BY]:
        logger.warning("service kube-dns exists and is not changed", extra={"namespace": NAMESPACE})
        return False
    for each in (_service(cluster_ip), _endpoint_slice(address, port)):
        await client.apply(Unstructured(each), field_manager=FIELD_MANAGER, force=True)
    return True


def _metadata(name: str, **labels: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": {**_LABELS, **labels}}


def _service(cluster_ip: str) -> dict[str, Any]:
    ports = [{"name": name, "protocol": protocol, "port": 53} for name, protocol in _PORTS]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(NAME),
        "spec": {"clusterIP": cluster_ip, "ports": ports},
    }


def _endpoint_slice(address: str, port: int) -> dict[str, Any]:
    ports = [{"name": name, "protocol": protocol, "port": port} for name, protocol in _PORTS]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _metadata(
            SLICE,
            **{
                "kubernetes.io/service-name": NAME,
                "endpointslice.kubernetes.io/managed-by": FIELD_MANAGER,
            },
        ),
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }
