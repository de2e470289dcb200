"""Bootstrap objects: namespaces, RBAC, priority classes, flow control and the API server's own service.

Missing objects are created directly in storage, without validation, to keep the start cheap. Their fields are
managed by `kube-apiserver`. Existing objects are not changed, except the endpoints of the server itself, and
roles and flow control that an older version has written (`bootstrap_updates`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.apiserver.rest.store import ResourceStore
from kubewright.apiserver.server import APIServer
from kubewright.storage.contract import KeyExists, KeyValue, RevisionMismatch, StorageError

from . import roles as bootstrap_roles
from .flows import flow_schemas, is_generated_flow, priority_levels
from .roles import RBAC
from .updates import Merge, managed_fields, merge_flow_spec, merge_role

logger = logging.getLogger("kubewright.controlplane")

FLOW = "flowcontrol.apiserver.k8s.io"
FIELD_MANAGER = "kube-apiserver"
FLOW_FIELD_MANAGER = "api-priority-and-fairness-config-producer-v1"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def write_missing(
    server: APIServer,
    group: str,
    plural: str,
    objects: Iterable[Object],
    *,
    merge: Merge | None = None,
    removes: Callable[[Object], bool] | None = None,
) -> None:
    """Create the objects that do not exist. They have no type, uid and creation time yet.

    `merge` changes existing ones. `removes` selects those of other versions, which are deleted.
    """
    store = server.store(group, plural)
    if store is None:
        return
    page, errors = await store.storage.list_stored(store.prefix)
    present = {item.key: item for item in page.items}
    undecodable = {error.key for error in errors}
    now = current_timestamp()
    waiting = []
    for obj in objects:
        metadata = obj["metadata"]
        key = store.key(metadata.get("namespace", ""), metadata["name"])
        if key not in present:
            metadata = {
                **metadata,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": now,
                "managedFields": managed_fields(
                    _sent_by_server(store, obj), manager=_field_manager(store), time=now
                ),
            }
            waiting.append(store.storage.create(key, store.codec.pack({**obj, "metadata": metadata})))
        elif merge is not None and key not in undecodable:
            await _update(store, present[key], obj, merge)
        present.pop(key, None)
    if removes is not None:
        for key, item in present.items():
            if key not in undecodable and removes(store.codec.unpack(item.value, item.mod_revision)):
                with contextlib.suppress(RevisionMismatch):  # another server has changed it
                    await store.storage.delete(key, expected=item.mod_revision)
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(result, int):
            store.written = max(store.written, result)
        elif not isinstance(result, KeyExists):
            raise result


async def _update(store: ResourceStore, item: KeyValue, wanted: Object, merge: Merge) -> None:
    """Write what is missing in an existing object, unless another server has changed it meanwhile."""
    merged = merge(store.codec.unpack(item.value, item.mod_revision), wanted)
    if merged is None:
        return
    metadata, manager = merged["metadata"], _field_manager(store)
    others = [each for each in metadata.get("managedFields") or () if each.get("manager") != manager]
    sent = {
        **merged,
        "metadata": {
            field: metadata[field]
            for field in ("name", "namespace", "labels", "annotations")
            if field in metadata
        },
    }
    own = managed_fields(_sent_by_server(store, sent), manager=manager, time=current_timestamp())
    merged["metadata"] = {**metadata, "managedFields": [*own, *others]}
    try:
        store.written = await store.storage.update(
            item.key, store.codec.pack(merged), expected=item.mod_revision
        )
    except RevisionMismatch:
        return
    except StorageError as error:
        # A server on a read-only store serves reads.
        logger.warning("cannot update bootstrap object", extra={"key": item.key, "error": str(error)})
        return
    logger.info("updated bootstrap object", extra={"key": item.key})


def _sent_by_server(store: ResourceStore, obj: Object) -> Object:
    """Return the object as kube-apiserver sends it; other fields are set by the strategy."""
    resource = store.resource
    unsent = {"status", *(("spec",) if resource.plural == "namespaces" else ())}
    body: Object = {"apiVersion": store.codec.api_version, "kind": resource.kind}
    body |= {field: value for field, value in obj.items() if field not in unsent}
    if resource.plural == "services":
        assigned = ("clusterIPs", "ipFamilies")
        body["spec"] = {field: value for field, value in obj["spec"].items() if field not in assigned}
    return body


def _field_manager(store: ResourceStore) -> str:
    return FLOW_FIELD_MANAGER if store.resource.group == FLOW else FIELD_MANAGER


async def _write_endpoints(server: APIServer, address: str, port: int) -> None:
    """Write the address of this server to the endpoints of the service `kubernetes`.

    The server that was started last wins, such as one that was restarted on another port.
    """
    for group, plural, wanted in (
        ("", "endpoints", _endpoints(address, port)),
        ("discovery.k8s.io", "endpointslices", _endpoint_slice(address, port)),
    ):
        await write_missing(server, group, plural, [wanted])
        store = server.store(group, plural)
        assert store is not None
        item, error = await store.storage.get_stored(store.key("default", "kubernetes"))
        if item is None or error is not None:
            continue
        stored = store.codec.unpack(item.value, item.mod_revision)
        changed = {field: value for field, value in wanted.items() if field != "metadata"}
        if any(stored.get(field) != value for field, value in changed.items()):
            stored.update(changed)
            try:
                store.written = await store.storage.update(
                    item.key, store.codec.pack(stored), expected=item.mod_revision
                )
            except RevisionMismatch:
                pass  # Another server has written its own address.
            except StorageError as error:
                # A server on a read-only store serves reads.
                logger.warning("cannot write own endpoints", extra={"resource": plural, "error": str(error)})


async def bootstrap(
    server: APIServer, *, service_ranges: Sequence[str], address: str, port: int, rbac: bool
) -> None:
    """Create all missing objects. `address` and `port` are the endpoint of the server."""
    first = str(next(ipaddress.ip_network(service_ranges[0]).hosts()))
    await asyncio.gather(
        write_missing(server, "", "namespaces", _namespaces()),
        write_missing(server, "scheduling.k8s.io", "priorityclasses", _priority_classes()),
        write_missing(
            server,
            FLOW,
            "prioritylevelconfigurations",
            priority_levels(),
            merge=merge_flow_spec,
            removes=is_generated_flow,
        ),
        write_missing(
            server,
            FLOW,
            "flowschemas",
            flow_schemas(server.kubernetes_version),
            merge=merge_flow_spec,
            removes=is_generated_flow,
        ),
        write_missing(server, "", "configmaps", [_token_tracking()]),
    )
    if rbac:
        version = server.kubernetes_version
        wanted = {
            "clusterroles": bootstrap_roles.cluster_roles(version),
            "clusterrolebindings": bootstrap_roles.cluster_role_bindings(version),
            "roles": bootstrap_roles.roles(version),
            "rolebindings": bootstrap_roles.role_bindings(version),
        }
        await asyncio.gather(
            *(
                write_missing(server, RBAC, plural, objects, merge=merge_role)
                for plural, objects in wanted.items()
            )
        )
    await asyncio.gather(
        _write_service_ranges(server, service_ranges),
        write_missing(server, "networking.k8s.io", "ipaddresses", [_ip_address(first)]),
        write_missing(server, "", "services", [_service(first, port)]),
        _write_endpoints(server, address, port),
    )


async def _write_service_ranges(server: APIServer, ranges: Sequence[str]) -> None:
    """Write the default ServiceCIDR; add the second range to one that has only the first."""
    await write_missing(server, "networking.k8s.io", "servicecidrs", [_service_cidr(ranges)])
    store = server.store("networking.k8s.io", "servicecidrs")
    if store is None:
        return
    item, error = await store.storage.get_stored(store.key("", "kubernetes"))
    if item is None or error is not None:
        return
    stored = store.codec.unpack(item.value, item.mod_revision)
    current = stored["spec"].get("cidrs") or []
    if current == list(ranges):
        return
    if len(ranges) == 2 and current == [ranges[0]]:
        stored["spec"]["cidrs"] = list(ranges)
        with contextlib.suppress(RevisionMismatch):  # another server has written it
            store.written = await store.storage.update(
                item.key, store.codec.pack(stored), expected=item.mod_revision
            )
        return
    logger.warning(
        "service ranges differ from the ServiceCIDR kubernetes, which is used",
        extra={"configured": ",".join(ranges), "stored": ",".join(current)},
    )


def _namespaces() -> Iterable[Object]:
    for name in NAMESPACES:
        yield {
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }


def _priority_classes() -> Iterable[Object]:
    for name, value, what in (
        (
            "system-node-critical",
            2_000_001_000,
            "system critical pods that must not be moved from their current node",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "system critical pods that must run in the cluster, but can be moved to another node if "
            "necessary",
        ),
    ):
        yield {
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": f"Used for {what}.",
            "preemptionPolicy": "PreemptLowerPriority",
        }


def _service_cidr(ranges: Sequence[str]) -> Object:
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": current_timestamp(),
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    return {
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": list(ranges)},
        "status": {"conditions": [ready]},
    }


def _family(address: str) -> str:
    return f"IPv{ipaddress.ip_address(address).version}"


def _ip_address(address: str) -> Object:
    labels = {
        "ipaddress.kubernetes.io/ip-family": _family(address),
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = {"resource": "services", "namespace": "default", "name": "kubernetes"}
    return {"metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}}


def _service(address: str, port: int) -> Object:
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": address,
            "clusterIPs": [address],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": [_family(address)],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def _endpoints(address: str, port: int) -> Object:
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [
            {
                "addresses": [{"ip": address}],
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            }
        ],
    }


def _endpoint_slice(address: str, port: int) -> Object:
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "generation": 1,
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": _family(address),
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": port}],
    }


def _token_tracking() -> Object:
    return {
        "metadata": {
            "name": "kube-apiserver-legacy-service-account-token-tracking",
            "namespace": "kube-system",
        },
        "data": {"since": datetime.now(UTC).date().isoformat()},
    }
