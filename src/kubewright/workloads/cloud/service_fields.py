"""Fields of a Service that decide about its load balancer, and helpers for providers.

The nodes behind load balancers. Nodes that are not ready stay: load balancers have health checks of their
own, and a short failure of a kubelet must not close connections.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from kubewright.api.core.v1 import Node, Service, ServiceSpec
from kubewright.api.finalizers import has_finalizer, is_deleting

FINALIZER: Final = "service.kubernetes.io/load-balancer-cleanup"
SOURCE_RANGES_ANNOTATION: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
LOAD_BALANCER: Final = "LoadBalancer"
_NO_SPEC: Final = ServiceSpec()
_NAME_LENGTH: Final = 32


def wants_load_balancer(service: Service) -> bool:
    """Whether the cloud provides the load balancer; with `loadBalancerClass` another controller does."""
    spec = service.spec or _NO_SPEC
    return spec.type == LOAD_BALANCER and spec.load_balancer_class is None


def needs_cleanup(service: Service) -> bool:
    """Whether the load balancer has to be deleted: the service is being deleted or has another type."""
    spec = service.spec or _NO_SPEC
    return has_finalizer(service, FINALIZER) and (is_deleting(service) or spec.type != LOAD_BALANCER)


def needs_update(old: Service, new: Service) -> bool:
    """Whether a change of a service concerns its load balancer."""
    wanted, wants = wants_load_balancer(old), wants_load_balancer(new)
    if wanted != wants:
        return True
    return wants and _relevant_fields(old) != _relevant_fields(new)


def _relevant_fields(service: Service) -> tuple[object, ...]:
    spec = service.spec or _NO_SPEC
    return (
        service.metadata.uid,
        service.metadata.annotations or {},
        spec.load_balancer_source_ranges or [],
        spec.ports or [],
        spec.session_affinity,
        spec.session_affinity_config,
        spec.load_balancer_ip,
        spec.external_ips or [],
        spec.external_traffic_policy,
        spec.health_check_node_port,
        len(spec.ip_families or ()),
    )


def default_load_balancer_name(service: Service) -> str:
    """Return a name from the UID of the service: a letter and up to 31 hexadecimal digits."""
    return ("a" + (service.metadata.uid or "").replace("-", ""))[:_NAME_LENGTH]


def health_check_port(service: Service) -> int | None:
    """Return the node port of `/healthz`, which is healthy on nodes with endpoints of the service.

    Only with `externalTrafficPolicy: Local`; otherwise every node forwards to all endpoints.
    """
    spec = service.spec or _NO_SPEC
    local = spec.type == LOAD_BALANCER and spec.external_traffic_policy == "Local"
    return (spec.health_check_node_port or None) if local else None


def source_ranges(service: Service) -> list[str]:
    """Return the ranges of allowed clients, from the spec or the annotation; without them all addresses.

    Raises `ValueError` for a malformed range.
    """
    ranges = (service.spec or _NO_SPEC).load_balancer_source_ranges
    if not ranges:
        text = (service.metadata.annotations or {}).get(SOURCE_RANGES_ANNOTATION, "").strip()
        ranges = [part.strip() for part in text.split(",")] if text else ["0.0.0.0/0"]
    return [str(ipaddress.ip_network(part.strip(), strict=False)) for part in ranges]


EXCLUDE_LABEL: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def is_included(node: Node) -> bool:
    """Whether the label does not exclude the node; any value but false excludes it."""
    value = (node.metadata.labels or {}).get(EXCLUDE_LABEL)
    return value is None or value in _FALSE


def select_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that receive traffic: not excluded, not being deleted by the API or an autoscaler."""
    return [node for node in nodes if _is_stable(node) and is_included(node)]


def _is_stable(node: Node) -> bool:
    taints = (node.spec.taints if node.spec is not None else None) or ()
    return node.metadata.deletion_timestamp is None and not any(
        taint.key == TO_BE_DELETED_TAINT for taint in taints
    )


def affects_load_balancers(old: Node | None, new: Node | None) -> bool:
    """Whether a change of a node can change the nodes of load balancers."""
    if old is None or new is None:
        return True
    return is_included(old) != is_included(new) or provider_id(old) != provider_id(new)


def provider_id(node: Node) -> str:
    """Return the provider ID of a node; empty before it was initialized."""
    return (node.spec.provider_id if node.spec is not None else None) or ""


def provider_ids(nodes: Iterable[Node]) -> Mapping[str, str]:
    """Return the provider IDs by node; load balancers are updated when this map changes."""
    return {node.name: provider_id(node) for node in nodes}
