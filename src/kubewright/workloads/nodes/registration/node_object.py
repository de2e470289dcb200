"""Node and Lease objects as a kubelet writes them."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from typing import Final

from kubewright import __version__
from kubewright.workloads.nodes.objects import LEASE, LEASE_NAMESPACE, Object

from .node_spec import ARCHITECTURES, NodeSpec

RUNTIME_VERSION: Final = f"kubewright://{__version__}"
LEASE_DURATION_SECONDS: Final = 40
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
"""Taint of nodes whose provider ID a cloud provider sets."""
MANAGED_BY_KWOK: Final = "kwok.x-k8s.io/node"
"""Annotation of Node objects that a user creates and wants to be simulated; its value is `fake`."""

_HEALTHY: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_PRESSURE: Final = {
    "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}


def node_object(
    spec: NodeSpec,
    *,
    index: int,
    kubelet_port: int,
    stamp: str,
    version: str,
    pod_cidr: str = "",
    internal_ip: str = "",
) -> Object:
    """Return the Node object that a kubelet registers. `index` determines addresses that are not given.

    `version` is that of the kubelet.
    """
    pod_cidr = spec.pod_cidr or pod_cidr or default_pod_cidr(index)
    node_spec: Object = {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}
    if not any(taint.get("key") == UNINITIALIZED for taint in spec.taints):
        node_spec["providerID"] = f"kubewright://{spec.name}"
    if spec.taints:
        node_spec["taints"] = [dict(taint) for taint in spec.taints]
    if spec.unschedulable:
        node_spec["unschedulable"] = True
    metadata: Object = {"name": spec.name, "labels": spec.all_labels()}
    annotations = {"node.alpha.kubernetes.io/ttl": "0", **spec.annotations}
    metadata["annotations"] = annotations
    capacity = dict(spec.capacity)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": node_spec,
        "status": node_status(
            spec.name,
            capacity=capacity,
            allocatable=dict(spec.allocatable) if spec.allocatable is not None else capacity,
            address=spec.internal_ip or internal_ip or default_internal_ip(index),
            kubelet_port=kubelet_port,
            stamp=stamp,
            version=version,
            images=spec.images,
        ),
    }


def node_status(
    name: str,
    *,
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    address: str,
    kubelet_port: int,
    stamp: str,
    version: str,
    images: tuple[str, ...] = (),
) -> Object:
    """Return the status of a healthy node.

    The kubelets of all simulated nodes share one local port; the `InternalDNS` address names the node.
    """
    return {
        "capacity": dict(capacity),
        "allocatable": dict(allocatable),
        "conditions": node_conditions(stamp),
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
            {"type": "InternalDNS", "address": f"{name}.localhost"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "nodeInfo": node_info(name, version),
        "images": [{"names": [image], "sizeBytes": image_size(image)} for image in images],
    }


def node_conditions(
    stamp: str, previous: Mapping[str, Object] | None = None, pressure: frozenset[str] = frozenset()
) -> list[Object]:
    """Return the conditions of a running kubelet; transition times of `previous` are kept.

    `pressure` has the types of pressure conditions that are true.
    """
    conditions: list[Object] = []
    for kind, status, reason, message in _HEALTHY:
        if kind in pressure:
            status, (reason, message) = "True", _PRESSURE[kind]
        old = (previous or {}).get(kind)
        since = old.get("lastTransitionTime") if old is not None and old.get("status") == status else stamp
        conditions.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": stamp,
                "lastTransitionTime": since or stamp,
                "reason": reason,
                "message": message,
            }
        )
    return conditions


def node_info(name: str, version: str) -> Object:
    """Return `status.nodeInfo`. Identifiers depend on the name only."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    machine = platform.machine()
    return {
        "machineID": digest[:32],
        "systemUUID": f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}",
        "bootID": f"{digest[32:40]}-{digest[40:44]}-{digest[44:48]}-{digest[48:52]}-{digest[52:64]}",
        "kernelVersion": "6.12.0",
        "osImage": "Kubewright simulated node",
        "containerRuntimeVersion": RUNTIME_VERSION,
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": ARCHITECTURES.get(machine, machine or "amd64"),
    }


def lease_object(node: str, uid: str, stamp: str) -> Object:
    """Return the Lease of a node, which the Node object owns."""
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {
            "name": node,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_DURATION_SECONDS,
            "renewTime": stamp,
        },
    }


def default_pod_cidr(index: int) -> str:
    """Return the pod CIDR of a node: a /24 of 10.244.0.0 and the following ranges, up to 3,072 nodes."""
    return f"10.{244 + index // 256 % 12}.{index % 256}.0/24"


def default_internal_ip(index: int) -> str:
    """Return the address of a node, in 172.18.0.0/16."""
    number = index + 2
    return f"172.{18 + number // 65536 % 14}.{number // 256 % 256}.{number % 256}"


def image_size(image: str) -> int:
    """Return the size of a simulated image in bytes; it depends on the name only."""
    return 20_000_000 + int.from_bytes(hashlib.sha256(image.encode()).digest()[:3], "big")


def image_id(image: str) -> str:
    """Return the identifier of a simulated image."""
    return f"{image.partition('@')[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
