"""Scenarios of the controllers inside the control plane: garbage collection, namespaces, quotas, ..."""

from __future__ import annotations

from typing import Any

from tests.explore.controllers.table import FAMILIES, Explored

from kubewright.explore import (
    ClusterState,
    ControlPlaneControllers,
    DefinitionFinalizer,
    Steps,
    always,
    at_end,
    finalizers_removed,
    no_orphans,
    scenario,
)

Object = dict[str, Any]

GARBAGE_COLLECTOR = "garbage-collector-controller"
NAMESPACES = "namespace-controller"
ACCOUNTS = (
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-token-controller",
)


def config_map(
    name: str, *owners: Object, namespace: str = "default", block: bool = True, **meta: Any
) -> Object:
    """Return a ConfigMap that is owned by others."""
    references = [
        {
            "apiVersion": each["apiVersion"],
            "kind": each["kind"],
            "name": each["metadata"]["name"],
            "uid": each["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for each in owners
    ]
    metadata: Object = {"name": name, "namespace": namespace, **meta}
    if references:
        metadata["ownerReferences"] = references
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": name}}


async def delete(steps: Steps, name: str, policy: str) -> None:
    """Delete a ConfigMap with a propagation policy."""
    await steps.client.delete("ConfigMap", name, namespace="default", propagation=policy)


@always
def owner_is_deleted_last(state: ClusterState) -> str | None:
    """In a foreground deletion, a dependent that blocks its owner does not outlive it."""
    for gone in state.deleted():
        if "foregroundDeletion" in gone.finalizers or gone.name == "root":
            for child in state.of_kind("ConfigMap"):
                for reference in child.owner_references:
                    if reference["uid"] == gone.uid and reference.get("blockOwnerDeletion"):
                        return f"{gone.name} was deleted before {child.name}"
    return None


@at_end
def orphans_exist(state: ClusterState) -> str | None:
    """Orphaned dependents exist, without a reference to the deleted owner."""
    names = [each.name for each in state.of_kind("ConfigMap") if not each.owner_references]
    return None if {"one", "two"} <= set(names) else f"only {names} exist without an owner"


@scenario(invariants=[no_orphans()], quiet_seconds=10)
async def background_deletion(steps: Steps) -> None:
    root = await steps.apply(config_map("root"))
    middle = await steps.apply(config_map("middle", root))
    await steps.apply(config_map("leaf", middle))
    await steps.advance(5)
    await delete(steps, "root", "Background")
    await steps.wait("ConfigMap", "leaf", absent=True)


@scenario(invariants=[no_orphans(), finalizers_removed(), owner_is_deleted_last], quiet_seconds=10)
async def foreground_deletion(steps: Steps) -> None:
    root = await steps.apply(config_map("root"))
    middle = await steps.apply(config_map("middle", root))
    await steps.apply(config_map("leaf", middle))
    await steps.apply(config_map("free", root, block=False))
    await steps.advance(5)
    await delete(steps, "root", "Foreground")
    await steps.wait("ConfigMap", "root", absent=True)


@scenario(invariants=[finalizers_removed(), orphans_exist], quiet_seconds=10)
async def orphaning_deletion(steps: Steps) -> None:
    root = await steps.apply(config_map("root"))
    await steps.apply(config_map("one", root))
    await steps.apply(config_map("two", root))
    await steps.advance(5)
    await delete(steps, "root", "Orphan")
    await steps.wait("ConfigMap", "root", absent=True)


@scenario(invariants=[no_orphans()], quiet_seconds=10)
async def two_owners(steps: Steps) -> None:
    first = await steps.apply(config_map("first"))
    second = await steps.apply(config_map("second"))
    await steps.apply(config_map("both", first, second))
    await steps.apply(config_map("missing-owner", {**first, "metadata": {**first["metadata"], "uid": "0"}}))
    await steps.advance(5)
    await delete(steps, "first", "Background")
    await steps.advance(5)
    await delete(steps, "second", "Background")
    await steps.wait("ConfigMap", "both", absent=True)


@scenario(invariants=[finalizers_removed()], quiet_seconds=10)
async def foreground_deletion_with_finalizer(steps: Steps) -> None:
    root = await steps.apply(config_map("root"))
    await steps.apply(config_map("held", root, finalizers=["example.com/hold"]))
    await steps.advance(5)
    await delete(steps, "root", "Foreground")
    await steps.advance(5)
    await steps.patch("ConfigMap", "held", {"metadata": {"finalizers": None}})
    await steps.wait("ConfigMap", "root", absent=True)


@at_end
def new_dependent_exists(state: ClusterState) -> str | None:
    """The dependent of the new owner is not deleted with those of the old one."""
    found = state.get("ConfigMap", "of-new", namespace="default")
    return None if found is not None else "of-new was deleted"


@scenario(invariants=[no_orphans(), new_dependent_exists], quiet_seconds=10)
async def owner_with_the_same_name(steps: Steps) -> None:
    """The owner is deleted and created again: its dependents belong to the deleted one."""
    old = await steps.apply(config_map("root"))
    await steps.apply(config_map("of-old", old))
    await steps.advance(5)
    await delete(steps, "root", "Background")
    new = await steps.apply(config_map("root"))
    await steps.apply(config_map("of-new", new))
    await steps.wait("ConfigMap", "of-old", absent=True)


WIDGETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def widget(name: str, namespace: str = "default", **meta: Any) -> Object:
    """Return a custom resource."""
    metadata = {"name": name, "namespace": namespace, **meta}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}


def namespace(name: str) -> Object:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@scenario(setup=[WIDGETS], invariants=[no_orphans()], quiet_seconds=10)
async def definition_with_dependents(steps: Steps) -> None:
    """The definition of the owners is deleted; their dependents are deleted afterwards."""
    owner = await steps.apply(widget("owner"))
    await steps.apply(config_map("part", owner))
    await steps.advance(5)
    await steps.delete("CustomResourceDefinition", "widgets.example.com")
    await steps.wait("ConfigMap", "part", absent=True)


@always
def definition_is_deleted_last(state: ClusterState) -> str | None:
    """No instance exists without its definition."""
    exists = any(each.name == "widgets.example.com" for each in state.baseline.values())
    left = state.of_kind("Widget.example.com")
    return f"{left[0]} exists without its definition" if left and not exists else None


@scenario(setup=[WIDGETS], invariants=[definition_is_deleted_last], quiet_seconds=10)
async def definition_deletion(steps: Steps) -> None:
    """An instance with a finalizer delays the deletion of the definition."""
    await steps.apply(widget("a"))
    await steps.apply(widget("held", finalizers=["example.com/hold"]))
    await steps.advance(5)
    await steps.delete("CustomResourceDefinition", "widgets.example.com")
    await steps.advance(5)
    await steps.patch("Widget", "held", {"metadata": {"finalizers": None}})
    await steps.wait("CustomResourceDefinition", "widgets.example.com", absent=True)


@always
def namespace_is_deleted_last(state: ClusterState) -> str | None:
    """No object exists in a namespace that was deleted."""
    names = {each.name for each in (*state.of_kind("Namespace"), *_baseline_namespaces(state))}
    left = next((each for each in state if each.namespace and each.namespace not in names), None)
    return f"{left} exists without its namespace" if left is not None else None


def _baseline_namespaces(state: ClusterState) -> list[Any]:
    return [each for each in state.baseline.values() if each.key.kind == "Namespace"]


@scenario(setup=[WIDGETS], invariants=[namespace_is_deleted_last, finalizers_removed()], quiet_seconds=10)
async def namespace_deletion(steps: Steps) -> None:
    await steps.apply(namespace("shop"))
    await steps.apply(config_map("settings", namespace="shop"))
    await steps.apply(widget("a", "shop"))
    await steps.apply(pod("web", "shop"), namespace="shop")
    await steps.advance(5)
    await steps.delete("Namespace", "shop")
    await steps.wait("Namespace", "shop", absent=True)


@scenario(invariants=[namespace_is_deleted_last, finalizers_removed()], quiet_seconds=10)
async def namespace_deletion_with_finalizer(steps: Steps) -> None:
    """An object with a finalizer delays the deletion; another is created and deleted meanwhile."""
    await steps.apply(namespace("shop"))
    await steps.apply(config_map("held", namespace="shop", finalizers=["example.com/hold"]))
    await steps.apply(config_map("other", namespace="shop"))
    await steps.advance(5)
    await steps.delete("Namespace", "shop")
    await steps.advance(5)
    await steps.patch("ConfigMap", "held", {"metadata": {"finalizers": None}}, namespace="shop")
    await steps.wait("Namespace", "shop", absent=True)


@scenario(invariants=[namespace_is_deleted_last, finalizers_removed()], quiet_seconds=10)
async def namespace_with_owned_objects(steps: Steps) -> None:
    """Namespace controller and garbage collector delete the same objects."""
    await steps.apply(namespace("shop"))
    root = await steps.apply(config_map("root", namespace="shop"))
    await steps.apply(config_map("part", root, namespace="shop"))
    await steps.advance(5)
    await steps.client.delete("ConfigMap", "root", namespace="shop", propagation="Foreground")
    await steps.delete("Namespace", "shop")
    await steps.wait("Namespace", "shop", absent=True)


def pod(name: str, namespace: str = "default", **spec: Any) -> Object:
    """Return a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "web", "image": "nginx"}],
            **spec,
        },
    }


TOKEN_SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "robot-token",
        "namespace": "shop",
        "annotations": {"kubernetes.io/service-account.name": "robot"},
    },
    "type": "kubernetes.io/service-account-token",
}


@at_end
def authority_is_restored(state: ClusterState) -> str | None:
    """The config map with the CA has its value."""
    found = state.get("ConfigMap", "kube-root-ca.crt", namespace="shop")
    if found is None:
        return "the config map kube-root-ca.crt does not exist"
    return (
        None if "BEGIN CERTIFICATE" in found.get("data", "ca.crt", default="") else "the CA is not restored"
    )


@scenario(invariants=[authority_is_restored], quiet_seconds=10)
async def service_accounts(steps: Steps) -> None:
    """Namespaces get an account and the CA; they are restored; a token secret is deleted with its account."""
    await steps.apply(namespace("shop"))
    await steps.wait("ServiceAccount", "default", namespace="shop", absent=False)
    await steps.wait("ConfigMap", "kube-root-ca.crt", namespace="shop", absent=False)
    await steps.delete("ServiceAccount", "default", namespace="shop")
    await steps.patch("ConfigMap", "kube-root-ca.crt", {"data": {"ca.crt": "changed"}}, namespace="shop")
    await steps.advance(5)
    await steps.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "shop"}}
    )
    await steps.apply(TOKEN_SECRET)
    await steps.wait("Secret", "robot-token", namespace="shop", condition=has_token)
    await steps.advance(5)
    await steps.delete("ServiceAccount", "robot", namespace="shop")
    await steps.wait("Secret", "robot-token", namespace="shop", absent=True)


def has_token(obj: Any) -> bool:
    """Whether a secret has a token."""
    return obj is not None and bool((obj.raw.get("data") or {}).get("token"))


@scenario(quiet_seconds=10)
async def resource_quota(steps: Steps) -> None:
    """Usage is counted after creates, deletes, and a change of the limits."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"}}
    await steps.apply(config_map("before"))
    await steps.apply({**quota, "spec": {"hard": {"count/configmaps": "10"}}})
    await steps.advance(5)
    await steps.apply(config_map("one"))
    await steps.apply(config_map("two"))
    await steps.advance(5)
    await steps.delete("ConfigMap", "one")
    await steps.advance(5)
    await steps.apply({**quota, "spec": {"hard": {"count/configmaps": "10", "count/secrets": "5"}}})
    await steps.advance(5)
    await steps.delete("ConfigMap", "two")
    await steps.advance(5)


def role(name: str, verb: str = "", **labels: str) -> Object:
    """Return a cluster role; without a verb, an aggregated one."""
    made: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
    }
    if verb:
        made["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]
    else:
        made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"part-of": name}}]}
    return made


@scenario(quiet_seconds=10)
async def role_aggregation(steps: Steps) -> None:
    await steps.apply(role("reader", "get", **{"part-of": "all"}))
    await steps.apply(role("all"))
    await steps.advance(5)
    await steps.apply(role("writer", "update", **{"part-of": "all"}))
    await steps.advance(5)
    await steps.patch("ClusterRole", "reader", {"metadata": {"labels": {"part-of": None}}})
    await steps.advance(5)
    await steps.delete("ClusterRole", "writer")
    await steps.advance(5)


CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
VOLUME: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/data"},
    },
}


@always
def claim_in_use_exists(state: ClusterState) -> str | None:
    """A claim exists while a pod uses it."""
    if state.get("Pod", "web", namespace="default") is None or not state.deleted():
        return None
    gone = [each for each in state.deleted() if each.key.kind == "PersistentVolumeClaim"]
    return "the claim was deleted before the pod" if gone else None


@scenario(invariants=[claim_in_use_exists, finalizers_removed()], quiet_seconds=10)
async def storage_protection(steps: Steps) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await steps.apply(VOLUME)
    await steps.apply(CLAIM)
    await steps.apply(pod("web", volumes=volumes, nodeName="node-1"))
    await steps.advance(5)
    await steps.delete("PersistentVolumeClaim", "data")
    await steps.delete("PersistentVolume", "disk")
    await steps.advance(5)
    await steps.client.delete("Pod", "web", namespace="default", grace_period=0)
    await steps.wait("PersistentVolumeClaim", "data", absent=True)


POLICY: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "replicas"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["deployments"],
                }
            ]
        },
        "validations": [{"expression": "object.spec.replicas <= 5"}],
    },
}


@scenario(quiet_seconds=10)
async def policy_status(steps: Steps) -> None:
    await steps.apply(POLICY)
    await steps.advance(5)
    spec = {**POLICY["spec"], "validations": [{"expression": "object.spec.nothing <= 5"}]}
    await steps.apply({**POLICY, "spec": spec})
    await steps.advance(5)


def explored() -> list[Explored]:
    """Return the scenarios with the controllers that they explore."""

    def collector() -> ControlPlaneControllers:
        return ControlPlaneControllers(GARBAGE_COLLECTOR)

    def namespaces() -> ControlPlaneControllers:
        return ControlPlaneControllers(NAMESPACES)

    return [
        Explored("garbage collector, background", collector, background_deletion),
        Explored("garbage collector, foreground", collector, foreground_deletion),
        Explored(
            "garbage collector, foreground with finalizer", collector, foreground_deletion_with_finalizer
        ),
        Explored("garbage collector, orphan", collector, orphaning_deletion),
        Explored("garbage collector, two owners", collector, two_owners),
        Explored("garbage collector, owner created again", collector, owner_with_the_same_name),
        # A collector that has not observed the deletion of an owner, and restarts after the definition of its
        # kind was deleted, cannot know that it does not exist; that of Kubernetes keeps the dependents, too.
        Explored(
            "garbage collector, definition of owners",
            collector,
            definition_with_dependents,
            tuple(each for each in FAMILIES if each not in ("crash", "unobserved")),
        ),
        Explored("deletion of definitions", DefinitionFinalizer, definition_deletion),
        Explored("namespaces", namespaces, namespace_deletion),
        Explored("namespaces, finalizer", namespaces, namespace_deletion_with_finalizer),
        Explored(
            "namespaces and garbage collector",
            lambda: ControlPlaneControllers(NAMESPACES, GARBAGE_COLLECTOR),
            namespace_with_owned_objects,
        ),
        Explored("service accounts", lambda: ControlPlaneControllers(*ACCOUNTS), service_accounts),
        Explored(
            "resource quotas", lambda: ControlPlaneControllers("resourcequota-controller"), resource_quota
        ),
        Explored(
            "cluster role aggregation",
            lambda: ControlPlaneControllers("clusterrole-aggregation-controller"),
            role_aggregation,
        ),
        Explored(
            "storage protection",
            lambda: ControlPlaneControllers("persistentvolumeclaim-protection-controller"),
            storage_protection,
        ),
        Explored(
            "policy status",
            lambda: ControlPlaneControllers("validatingadmissionpolicy-status-controller"),
            policy_status,
        ),
    ]
