"""The built-in kinds of Kubernetes: defaults, validation, printed columns, subresources.

    kinds/apps/deployment.py       KINDS = {"deployments": Kind(validate=Rules({...}), ...)}

One sub-package per API group, named after the first part of the group (`core` for the legacy group). Each of
its modules may declare kinds in a dict `KINDS`, from plural names to `Kind`. The module of a kind is imported
at the first use of the kind: the one with the name of the kind if it declares it, else all of the group.

- `kind`: `Kind`, the declaration, and `KindStrategy`, which applies it
- `validation`: tables of rules and the engine that compiles them
- `printing`: columns and cells of tables
- `workload`: what kinds with a pod template share
- `admissionregistration`: kinds of the API group admissionregistration.k8s.io: webhook configurations and
  admission policies
- `apiregistration`: kinds of the API group apiregistration.k8s.io: APIService
- `apps`: kinds of the API group apps: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision
- `autoscaling`: kinds of the API group autoscaling: HorizontalPodAutoscaler
- `batch`: kinds of the API group batch: Job and CronJob
- `certificates`: kinds of the API group certificates.k8s.io: CertificateSigningRequest
- `coordination`: kinds of the API group coordination.k8s.io: Lease
- `defaults`: default values as tables from field paths to values
- `discovery`: kinds of the API group discovery.k8s.io: EndpointSlice
- `events`: kinds of the API group events.k8s.io: Event
- `flowcontrol`: kinds of the API group flowcontrol.apiserver.k8s.io: FlowSchema and
  PriorityLevelConfiguration
- `networking`: kinds of the API group networking.k8s.io: Ingress, IngressClass, NetworkPolicy, IPAddress,
  ServiceCIDR
- `node`: kinds of the API group node.k8s.io: RuntimeClass
- `policy`: kinds of the API group policy: PodDisruptionBudget
- `rbac`: kinds of the API group rbac.authorization.k8s.io: roles and role bindings
- `resource`: kinds of the API group resource.k8s.io: DeviceClass, ResourceClaim and its template,
  ResourceSlice
- `retired_versions`: errors for request bodies of another built-in kind or version than that of the endpoint
- `scheduling`: kinds of the API group scheduling.k8s.io: PriorityClass
- `storage`: kinds of the API group storage.k8s.io: StorageClass, CSI objects, VolumeAttachment
- `storagemigration`: kinds of the API group storagemigration.k8s.io: StorageVersionMigration
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from kubewright.api.gvk import GroupKind

from .kind import Kind as Kind
from .kind import KindStrategy as KindStrategy


@cache
def kinds_of_group(group: str) -> Mapping[str, Kind]:
    """Return the kinds that a group declares, by plural name."""
    package = _package(group)
    spec = find_spec(package)
    if spec is None:
        return {}
    found: dict[str, Kind] = {}
    for module in iter_modules(spec.submodule_search_locations):
        found.update(_kinds_of_module(f"{package}.{module.name}"))
    return found


def find_kind(group_kind: GroupKind, plural: str) -> Kind:
    """Return the declaration of a kind; an empty one if its schema says everything."""
    package = _package(group_kind.group)
    module = f"{package}.{_WORD_START.sub('_', group_kind.kind).lower()}"
    if find_spec(package) is None:
        return Kind()
    own = _kinds_of_module(module) if find_spec(module) is not None else {}
    return own.get(plural) or kinds_of_group(group_kind.group).get(plural) or Kind()


def _package(group: str) -> str:
    return f"{__name__}.{group.partition('.')[0] or 'core'}"


def _kinds_of_module(name: str) -> Mapping[str, Kind]:
    kinds: Mapping[str, Kind] = getattr(import_module(name), "KINDS", {})
    return kinds


_WORD_START = re.compile("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Between `Config` and `Map`, `API` and `Service`."""
