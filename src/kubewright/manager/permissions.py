"""The RBAC rules that follow from what an operator declares.

Nobody has to write them twice: a kind that is reconciled must be read and its status written, a kind that is
owned must be read and written, a kind that is watched must be read.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.declare import Rbac
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch", "update")


def _rule(scheme: Scheme, kind: type[MetaObject], verbs: Iterable[str], subresource: str = "") -> Rbac:
    info = scheme.info_of(kind)
    resource = f"{info.plural}/{subresource}" if subresource else info.plural
    return Rbac(groups=(info.gvk.group or "core",), resources=(resource,), verbs=tuple(verbs), where="")


def for_reconciled(scheme: Scheme, kind: type[MetaObject]) -> list[Rbac]:
    """Read it, change its metadata, write its status, own things with it."""
    return [
        _rule(scheme, kind, (*READ, "patch", "update")),
        _rule(scheme, kind, ("get", "patch", "update"), "status"),
        _rule(scheme, kind, ("update",), "finalizers"),
    ]


def for_owned(scheme: Scheme, kind: type[MetaObject]) -> list[Rbac]:
    """Read and write it."""
    return [_rule(scheme, kind, (*READ, *WRITE))]


def for_watched(scheme: Scheme, kind: type[MetaObject]) -> list[Rbac]:
    """Read it."""
    return [_rule(scheme, kind, READ)]


def for_events() -> list[Rbac]:
    """Tell people about objects."""
    return [
        Rbac(groups=("core", "events.k8s.io"), resources=("events",), verbs=("create", "patch"), where="")
    ]


def for_leader_election(namespace: str) -> list[Rbac]:
    """Hold a lease."""
    return [
        Rbac(
            groups=("coordination.k8s.io",),
            resources=("leases",),
            verbs=("create", "get", "update"),
            namespace=namespace,
            where="",
        )
    ]
