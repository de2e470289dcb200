"""Services and their pods: which services select a pod, and the addresses and ports of a pod.

`ServiceSelectors` is updated by the changes of services, so that a change of a pod costs a lookup per label
instead of a list of services. Changes of pods that cannot affect an endpoint are ignored.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from msgspec import field

from kubewright.api.conditions import is_condition_true
from kubewright.api.core.v1 import Container, Pod, Service, ServicePort
from kubewright.api.encoding.codec import decoder
from kubewright.api.objects import Struct
from kubewright.cache import CacheEntry, ObjectChange
from kubewright.controller import Request

TERMINAL_PHASES = ("Succeeded", "Failed")


class _Metadata(Struct):
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _ServiceSpec(Struct):
    selector: dict[str, str] | None = None


class _ServiceFields(Struct):
    """The fields of a service that decide which pods it selects."""

    spec: _ServiceSpec | None = None


class _Address(Struct):
    ip: str | None = None


class _Condition(Struct):
    type: str | None = None
    status: str | None = None


class _PodSpec(Struct):
    hostname: str | None = None
    subdomain: str | None = None
    node_name: str | None = None


class _PodStatus(Struct):
    phase: str | None = None
    pod_ips: list[_Address] | None = field(default=None, name="podIPs")
    conditions: list[_Condition] | None = None


class _PodFields(Struct):
    """The fields of a pod that endpoints depend on."""

    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _PodSpec | None = None
    status: _PodStatus | None = None

    @property
    def has_address(self) -> bool:
        status = self.status
        return status is not None and bool(status.pod_ips) and status.phase not in TERMINAL_PHASES

    def endpoint_fields(self) -> tuple[object, ...]:
        """Return what an update has to change to affect an endpoint."""
        status, spec = self.status or _PodStatus(), self.spec or _PodSpec()
        return (
            self.has_address,
            is_condition_true(status.conditions or [], "Ready"),
            bool(self.metadata.deletion_timestamp),
            [each.ip for each in status.pod_ips or ()],
            spec.node_name,
            spec.hostname,
            spec.subdomain,
        )


_decode_service = decoder(_ServiceFields).decode
_decode_pod = decoder(_PodFields).decode


def selector_of_entry(entry: CacheEntry | None) -> dict[str, str] | None:
    """Return the selector of a cached service."""
    spec = _decode_service(entry.raw).spec if entry is not None else None
    return spec.selector if spec is not None else None


class ServiceSelectors:
    """The selectors of all services, by one of their labels."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}

    def update(self, change: ObjectChange) -> Iterable[Request]:
        """Event handler for services: record the selector, enqueue nothing."""
        namespace, name = change.key
        old, new = selector_of_entry(change.old), selector_of_entry(change.new)
        if old != new or change.old is None:
            if old:
                group = self._by_label.get((namespace, *min(old.items())), {})
                group.pop(name, None)
                if not group:
                    self._by_label.pop((namespace, *min(old.items())), None)
            if new:
                self._by_label.setdefault((namespace, *min(new.items())), {})[name] = new
        return ()

    def matching(self, namespace: str, labels: dict[str, str]) -> Iterable[str]:
        """Yield the names of the services that select these labels."""
        for item in labels.items():
            for name, selector in self._by_label.get((namespace, *item), {}).items():
                if selector.items() <= labels.items():
                    yield name

    def services_of_pod(self, change: ObjectChange) -> Iterable[Request]:
        """Event handler for pods: enqueue the services whose endpoints the change affects."""
        old = _decode_pod(change.old.raw) if change.old is not None else None
        new = _decode_pod(change.new.raw) if change.new is not None else None
        if not any(each is not None and each.has_address for each in (old, new)):
            return
        namespace = change.key.namespace
        if old is None or new is None:
            only = old or new
            assert only is not None
            for name in self.matching(namespace, only.metadata.labels or {}):
                yield Request(namespace, name)
            return
        before = set(self.matching(namespace, old.metadata.labels or {}))
        after = set(self.matching(namespace, new.metadata.labels or {}))
        changed = old.endpoint_fields() != new.endpoint_fields()
        for name in sorted(before | after if changed else before ^ after):
            yield Request(namespace, name)


def has_endpoints(service: Service) -> bool:
    """Whether endpoints are derived from the pods that a service selects."""
    spec = service.spec
    return spec is not None and spec.selector is not None and spec.type != "ExternalName"


def is_headless(service: Service) -> bool:
    """Whether a service has no cluster IP."""
    address = service.spec.cluster_ip if service.spec is not None else None
    return address in (None, "", "None")


def is_in_endpoints(pod: Pod, *, include_terminating: bool) -> bool:
    """Whether a pod is listed in the endpoints of its services."""
    status = pod.status
    if status is None or status.phase in TERMINAL_PHASES or not (status.pod_ip or status.pod_ips):
        return False
    return include_terminating or pod.metadata.deletion_timestamp is None


def is_pod_ready(pod: Pod) -> bool:
    """Whether the condition Ready of a pod is true."""
    return is_condition_true(pod.status, "Ready")


def pod_addresses(pod: Pod, family: str) -> list[str]:
    """Return the addresses of a pod in an IP family, in their canonical form."""
    found = []
    for each in (pod.status.pod_ips if pod.status is not None else None) or ():
        try:
            address = ipaddress.ip_address(each.ip or "")
        except ValueError:
            continue
        if f"IPv{address.version}" == family:
            found.append(str(address))
    return found


def pod_hostname(pod: Pod, service: Service) -> str | None:
    """Return the DNS name of a pod under its service; `None` if the pod has none there."""
    spec = pod.spec
    if spec is None or not spec.hostname or spec.subdomain != service.name:
        return None
    return spec.hostname if pod.namespace == service.namespace else None


def find_port(pod: Pod, port: ServicePort) -> int | None:
    """Return the number of the container port that a service port targets; `None` if it does not exist."""
    target = port.target_port
    if isinstance(target, int):
        return target
    spec = pod.spec
    if spec is None:
        return None
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    containers: list[Container] = [*(spec.containers or ()), *sidecars]
    for container in containers:
        for each in container.ports or ():
            if each.name == target and (each.protocol or "TCP") == (port.protocol or "TCP"):
                return each.container_port
    return None
