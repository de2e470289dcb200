"""RBAC rules that an operator requires, derived from its declarations and settings.

Reconciled kinds are read, and their metadata and status are written; owned kinds are read and written;
watched kinds are read. Rules for Leases, Secrets and access reviews follow from the settings.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kubewright.api.builtin import resources as builtin_resources
from kubewright.api.declaring.declarations import Rbac, has_status, is_resource, resource_info
from kubewright.api.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme
from kubewright.client.discovery.api_resource import APIResource
from kubewright.client.kind_types import MetadataKind

if TYPE_CHECKING:
    from .object_functions import ObjectFunctions
    from .operator import Operator
    from .settings import Settings

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch", "update")
SYSTEM = "system"
"""The namespace of the operator in manifests, which kustomize replaces."""


def rules_of(operator: Operator, settings: Settings | None = None) -> Iterable[Rbac]:
    """Return all rules that an operator requires in its cluster, with its own or with other settings.

    If the operator watches single namespaces, rules for namespaced kinds are for Roles in these, bound to its
    service account.
    """
    settings = settings or operator.settings
    yield from object_rules(operator, settings)
    for fleet in operator.fleets:
        for rule in getattr(fleet.provider, "rules", tuple)():
            yield _bound(operator.name, settings, rule) if rule.namespace else rule
        if fleet.local:
            yield from object_rules(fleet, settings)
    if settings.shards:
        yield for_shards(settings.leader_election_namespace or SYSTEM)
    if settings.leader_election:
        yield for_leader_election(settings.leader_election_namespace or SYSTEM)
        if settings.leader_election_coordinated:
            yield for_lease_candidates(settings.leader_election_namespace or SYSTEM)
    if settings.metrics_port is not None and settings.metrics_secure:
        yield from for_reviews()
    declared = operator.defaults or operator.validators or operator.converters
    if settings.webhooks and declared and not settings.webhook_certificates:
        yield from _for_managed_certificates(operator, settings)


def object_rules(functions: ObjectFunctions, settings: Settings) -> Iterable[Rbac]:
    """Return the rules for the kinds that functions reconcile, own and watch in a cluster."""
    scheme = functions.scheme
    in_namespaces = functools.partial(_in_namespaces, functions, settings)
    handlers = (*functions.reconcilers, *functions.finalizers.values(), *functions.timers, *functions.daemons)
    kinds = list(dict.fromkeys(each.kind for each in handlers))
    for kind in kinds:
        rules = for_named(kind) if isinstance(kind, str) else for_reconciled(scheme, kind)
        yield from in_namespaces(rules, kind)
    if functions.on.dispatchers:
        yield from in_namespaces([for_handled_states()], *functions.on.dispatchers)
    for each in functions.reconcilers:
        for owned in each.owns:
            yield from in_namespaces([for_owned(scheme, owned)], owned)
    for watched in functions.watched_kinds():
        base = watched.kind.kind if isinstance(watched.kind, MetadataKind) else watched.kind
        if isinstance(base, APIResource):
            base = base.gvr
        if isinstance(base, GroupResource):
            yield from in_namespaces([_read_rule(base.group, base.resource)])
            continue
        if isinstance(base, GroupVersionResource):
            built_in = builtin_resources.resource_at(base)
            if built_in is None:
                yield from in_namespaces([_read_rule(base.group, base.resource)])
                continue
            base = built_in.gvk
        if not isinstance(base, str):
            yield from in_namespaces([for_watched(scheme, base)], base)
    for rendered in functions.rendered.values():
        for rule, namespaced in rendered.rules(scheme):
            yield from in_namespaces([rule]) if namespaced else [rule]
    for composed in functions.composed.values():
        for rule, namespaced in composed.rules(scheme):
            yield from in_namespaces([rule]) if namespaced else [rule]
    if handlers:
        # Events of a cluster-scoped object are in the namespace default.
        yield from in_namespaces([for_events()], *kinds)


def _in_namespaces(
    operator: ObjectFunctions,
    settings: Settings,
    rules: Iterable[Rbac],
    *kinds: type[MetaObject] | GroupVersionKind | str,
) -> Iterable[Rbac]:
    """Return rules for each namespace of the operator, or unchanged if a kind is cluster-scoped.

    The scope of a kind without a class is not known; it is treated as namespaced.
    """
    name = operator.name
    known = [kind for kind in kinds if not isinstance(kind, str)]
    if not settings.namespaces or not all(operator.scheme.info_of(kind).namespaced for kind in known):
        return rules
    account = _account(name, settings)
    return [
        replace(rule, namespace=namespace, role=f"{name}-manager-role", service_account=account)
        for rule in rules
        for namespace in settings.namespaces
    ]


def _account(name: str, settings: Settings) -> str:
    return settings.service_account or f"{name}-{SYSTEM}/{name}-manager"


def _bound(name: str, settings: Settings, rule: Rbac) -> Rbac:
    """Return a rule of a cluster provider in a Role that is bound to the service account of the operator."""
    return replace(
        rule,
        role=rule.role or f"{name}-clusters-role",
        service_account=rule.service_account or _account(name, settings),
    )


def _rule(
    scheme: Scheme, kind: type[MetaObject] | GroupVersionKind, verbs: Iterable[str], subresource: str = ""
) -> Rbac:
    info = scheme.info_of(kind)
    resource = f"{info.plural}/{subresource}" if subresource else info.plural
    return Rbac(groups=(info.gvk.group or "core",), resources=(resource,), verbs=tuple(verbs), where="")


def for_reconciled(scheme: Scheme, kind: type[MetaObject]) -> list[Rbac]:
    """Read a kind, write its metadata and status, and use it as an owner."""
    rules = [_rule(scheme, kind, (*READ, "patch", "update")), _rule(scheme, kind, ("update",), "finalizers")]
    if not is_resource(kind) or has_status(kind):
        rules.append(_rule(scheme, kind, ("get", "patch", "update"), "status"))
    return rules


def for_named(resource: str) -> list[Rbac]:
    """The same as `for_reconciled`, for a resource without a class such as `deployments.apps`."""
    plural, _, group = resource.partition(".")

    def rule(name: str, *verbs: str) -> Rbac:
        return Rbac(groups=(group or "core",), resources=(name,), verbs=verbs, where="")

    return [
        rule(plural, *READ, "patch", "update"),
        rule(f"{plural}/finalizers", "update"),
        rule(f"{plural}/status", "get", "patch", "update"),
    ]


def for_handled_states() -> Rbac:
    """Store the last handled states of change handlers in ConfigMaps."""
    return Rbac(groups=("core",), resources=("configmaps",), verbs=("create", "get", "patch"), where="")


def for_owned(scheme: Scheme, kind: type[MetaObject]) -> Rbac:
    """Read and write a kind."""
    return _rule(scheme, kind, (*READ, *WRITE))


def for_watched(scheme: Scheme, kind: type[MetaObject] | GroupVersionKind) -> Rbac:
    """Read a kind."""
    return _rule(scheme, kind, READ)


def _read_rule(group: str, plural: str) -> Rbac:
    return Rbac(groups=(group or "core",), resources=(plural,), verbs=READ, where="")


def for_events() -> Rbac:
    """Create events."""
    return Rbac(groups=("core", "events.k8s.io"), resources=("events",), verbs=("create", "patch"), where="")


def for_leader_election(namespace: str) -> Rbac:
    """Acquire and renew a Lease."""
    return _election_rule(namespace, "leases", ("create", "get", "patch", "update"))


def for_shards(namespace: str) -> Rbac:
    """Join the shards of an operator, and observe the other members."""
    return _election_rule(
        namespace, "leases", ("create", "delete", "get", "list", "patch", "update", "watch")
    )


def for_lease_candidates(namespace: str) -> Rbac:
    """Create and renew a LeaseCandidate."""
    return _election_rule(namespace, "leasecandidates", ("create", "get", "list", "update", "watch"))


def _election_rule(namespace: str, resource: str, verbs: tuple[str, ...]) -> Rbac:
    return Rbac(
        groups=("coordination.k8s.io",),
        resources=(resource,),
        verbs=verbs,
        namespace=namespace,
        role="leader-election-role",
        where="",
    )


def for_reviews() -> list[Rbac]:
    """Authenticate and authorize clients of the metrics server."""
    return [
        Rbac(groups=(f"{word}.k8s.io",), resources=(resource,), verbs=("create",), where="")
        for word, resource in (("authentication", "tokenreviews"), ("authorization", "subjectaccessreviews"))
    ]


def _for_managed_certificates(operator: Operator, settings: Settings) -> Iterable[Rbac]:
    """Store certificates in a Secret and inject the CA bundle."""
    name = settings.webhook_name or operator.name
    namespace = settings.leader_election_namespace or SYSTEM
    secret = settings.webhook_secret or f"{name}-webhook-certificates"
    core = ("core",)
    yield Rbac(groups=core, resources=("secrets",), verbs=("create",), namespace=namespace, where="")
    yield Rbac(
        groups=core,
        resources=("secrets",),
        verbs=("get", "patch", "update"),
        resource_names=(secret,),
        namespace=namespace,
        where="",
    )
    for word, declared in (("mutating", operator.defaults), ("validating", operator.validators)):
        if declared:
            yield Rbac(
                groups=("admissionregistration.k8s.io",),
                resources=(f"{word}webhookconfigurations",),
                verbs=("get", "patch"),
                resource_names=(f"{name}-{word}-webhook-configuration",),
                where="",
            )
    definitions = [resource_info(converter.hub) for converter in operator.converters]
    if definitions:
        yield Rbac(
            groups=("apiextensions.k8s.io",),
            resources=("customresourcedefinitions",),
            verbs=("get", "patch"),
            resource_names=tuple(f"{each.plural}.{each.gvk.group}" for each in definitions),
            where="",
        )
