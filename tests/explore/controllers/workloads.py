"""Scenarios of the controllers of workloads.

Each explores one controller; the others run in the control plane, as far as the scenario needs them.
"""

from __future__ import annotations

from typing import Any

from tests.explore.controllers.control_plane import CLAIM, VOLUME, pod
from tests.explore.controllers.table import Explored

from kubewright.api.core.v1 import Node, Pod
from kubewright.api.meta import ObjectMeta
from kubewright.api.policy.v1 import Eviction
from kubewright.explore import (
    ClusterState,
    Steps,
    WorkloadControllers,
    always,
    no_orphans,
    observed_generation_current,
    one_controller,
    scenario,
)

Object = dict[str, Any]

LABELS = {"app": "web"}
PROVISIONER = "sim.kubewright.dev/volumes"
SELECTOR: Object = {"matchLabels": LABELS}


def template(image: str = "nginx:1", **spec: Any) -> Object:
    """Return a pod template."""
    return {
        "metadata": {"labels": LABELS},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "web", "image": image}],
            **spec,
        },
    }


def apps(kind: str, name: str = "web", **spec: Any) -> Object:
    """Return an object of the group apps with a pod template."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": SELECTOR, "template": template(), **spec},
    }


def image(name: str) -> Object:
    """Return a patch that sets another image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": name}]}}}}


def at_most(count: int) -> Any:
    """Return an invariant: there are never more active pods."""

    @always
    def at_most_pods(state: ClusterState) -> str | None:
        active = [each for each in state.of_kind("Pod") if not each.is_deleting]
        return f"{len(active)} pods exist" if len(active) > count else None

    return at_most_pods


OWNED = [no_orphans(), one_controller()]
OWNER_DELETED = 1000
"""Extra writes of scenarios in which an owner is deleted. While the watch of the owner is delayed, and that
of its dependents is not, the controller creates again what the garbage collector deletes, up to four times a
second. Controllers of Kubernetes do the same. The step before the deletion is longer than `LONG_SECONDS`, so
that only a delay of the deletion itself has this effect."""


STANDARD: Object = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard"},
    "provisioner": PROVISIONER,
    "allowVolumeExpansion": True,
}


# Deployments and replica sets


@scenario(controllers=True, nodes=1, quiet_seconds=20, invariants=[*OWNED, at_most(3)])
async def deployment_rollout(steps: Steps) -> None:
    await steps.apply(apps("Deployment", replicas=2))
    await steps.wait("Deployment", "web", condition="Available")
    await steps.patch("Deployment", "web", image("nginx:2"))
    await steps.advance("30s")


@scenario(
    controllers=True,
    nodes=1,
    quiet_seconds=20,
    invariants=[*OWNED, at_most(2)],
    tolerate=["Deployment:status.conditions"],
)
async def deployment_recreate(steps: Steps) -> None:
    """As in Kubernetes, the message of the condition Progressing may still name the old replica set."""
    await steps.apply(apps("Deployment", replicas=2, strategy={"type": "Recreate"}))
    await steps.wait("Deployment", "web", condition="Available")
    await steps.patch("Deployment", "web", image("nginx:2"))
    await steps.advance("30s")


@scenario(controllers=True, extra_writes=OWNER_DELETED, nodes=1, quiet_seconds=20, invariants=OWNED)
async def deployment_scale_and_delete(steps: Steps) -> None:
    await steps.apply(apps("Deployment", replicas=1, revisionHistoryLimit=0))
    await steps.wait("Deployment", "web", condition="Available")
    await steps.patch("Deployment", "web", {"spec": {"replicas": 3, "paused": True}})
    await steps.advance("20s")
    await steps.patch("Deployment", "web", {"spec": {"replicas": 1, "paused": False}})
    await steps.advance("3m")
    await steps.delete("Deployment", "web")
    await steps.advance("10s")


@scenario(
    controllers=True,
    extra_writes=OWNER_DELETED,
    nodes=1,
    quiet_seconds=20,
    invariants=[*OWNED, observed_generation_current("ReplicaSet")],
)
async def replica_set_scale(steps: Steps) -> None:
    """A pod of another owner is adopted; pods are created, deleted and released."""
    await steps.apply({**pod("loose"), "metadata": {"name": "loose", "labels": LABELS}})
    await steps.apply(apps("ReplicaSet", replicas=3))
    await steps.advance("20s")
    await steps.patch("Pod", "loose", {"metadata": {"labels": {"app": "other"}}})
    await steps.advance("20s")
    await steps.patch("ReplicaSet", "web", {"spec": {"replicas": 1}})
    await steps.advance("3m")
    await steps.delete("ReplicaSet", "web")
    await steps.advance("10s")
    # A controller that has not received the change of the labels deletes the pod when it scales down, as that
    # of Kubernetes does.
    await steps.client.delete("Pod", "loose", namespace="default", missing_ok=True)


# Stateful sets and daemon sets


@scenario(controllers=True, nodes=1, quiet_seconds=20, invariants=[*OWNED, at_most(2)])
async def stateful_set_rollout(steps: Steps) -> None:
    await steps.apply(apps("StatefulSet", replicas=2, serviceName="web"))
    await steps.wait("StatefulSet", "web", condition="{.status.readyReplicas}=2")
    await steps.patch("StatefulSet", "web", image("nginx:2"))
    await steps.advance("30s")


@scenario(
    controllers=True,
    extra_writes=OWNER_DELETED,
    nodes=1,
    quiet_seconds=20,
    setup=[STANDARD],
    invariants=[no_orphans()],
)
async def stateful_set_scale_with_claims(steps: Steps) -> None:
    """Claims are deleted when the set is scaled down or deleted."""
    claim = {"metadata": {"name": "data"}, "spec": {**CLAIM["spec"], "storageClassName": "standard"}}
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    await steps.apply(
        apps(
            "StatefulSet",
            replicas=2,
            serviceName="web",
            volumeClaimTemplates=[claim],
            persistentVolumeClaimRetentionPolicy=policy,
            podManagementPolicy="Parallel",
        )
    )
    # Longer than the faults: the claim of a pod that was not created before the scale-down is never deleted.
    await steps.advance("5m")
    await steps.patch("StatefulSet", "web", {"spec": {"replicas": 1}})
    await steps.advance("3m")
    await steps.delete("StatefulSet", "web")
    await steps.advance("20s")


@scenario(controllers=True, extra_writes=OWNER_DELETED, nodes=1, quiet_seconds=20, invariants=OWNED)
async def daemon_set_rollout(steps: Steps) -> None:
    await steps.apply(apps("DaemonSet"))
    await steps.advance("20s")
    await steps.patch("DaemonSet", "web", image("nginx:2"))
    await steps.advance("3m")
    await steps.delete("DaemonSet", "web")
    await steps.advance("10s")


# Jobs


def job(name: str, **spec: Any) -> Object:
    """Return a job whose pods end after five seconds."""
    made = template(restartPolicy="Never")
    made["metadata"]["annotations"] = {"sim.kubewright.dev/exit-after": "5s"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": made, **spec},
    }


@always
def no_completion_is_lost(state: ClusterState) -> str | None:
    """The number of succeeded pods in the status does not decrease."""
    found = state.get("Job", "work", namespace="default")
    before = state.previous.get("Job", "work", namespace="default") if state.previous else None
    if found is None or before is None:
        return None
    now, earlier = found.get("status", "succeeded", default=0), before.get("status", "succeeded", default=0)
    return f"succeeded was {earlier} and is {now}" if now < earlier else None


@scenario(controllers=True, nodes=1, quiet_seconds=20, invariants=[*OWNED, at_most(3), no_completion_is_lost])
async def job_with_completions(steps: Steps) -> None:
    await steps.apply(job("work", completions=3, parallelism=2))
    await steps.wait("Job", "work", condition="Complete")


@scenario(controllers=True, nodes=1, quiet_seconds=20, invariants=OWNED)
async def job_suspended(steps: Steps) -> None:
    """The pod runs longer than the faults last, so that the job is suspended while it is active."""
    made = job("work", completions=1)
    made["spec"]["template"]["metadata"]["annotations"]["sim.kubewright.dev/exit-after"] = "20m"
    await steps.apply(made)
    await steps.advance("5m")
    await steps.patch("Job", "work", {"spec": {"suspend": True}})
    await steps.advance("5m")
    await steps.patch("Job", "work", {"spec": {"suspend": False}})
    await steps.wait("Job", "work", condition="Complete", timeout="1h")


@scenario(controllers=True, nodes=1, quiet_seconds=20, invariants=OWNED)
async def job_is_deleted_after_ttl(steps: Steps) -> None:
    await steps.apply(job("work", ttlSecondsAfterFinished=30))
    await steps.wait("Job", "work", condition="Complete")
    await steps.wait("Job", "work", absent=True, timeout="15m")


@always
def one_job_at_a_time(state: ClusterState) -> str | None:
    """With the policy Forbid, at most one job runs, and a scheduled time has one job."""
    running = [each.name for each in state.of_kind("Job") if not each.get("status", "completionTime")]
    return f"{', '.join(running)} run at the same time" if len(running) > 1 else None


@scenario(controllers=True, nodes=1, quiet_seconds=20, invariants=[*OWNED, one_job_at_a_time])
async def cron_job(steps: Steps) -> None:
    """A job every ten minutes (faults are shorter), with a history of one; then the cron job is suspended."""
    spec = {
        "schedule": "*/10 * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": job("work")["spec"]},
    }
    await steps.apply(
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec}
    )
    await steps.advance("25m")
    await steps.patch("CronJob", "tick", {"spec": {"suspend": True}})
    await steps.advance("15m")


# Services


SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": LABELS, "ports": [{"port": 80}]},
}


@scenario(controllers=True, extra_writes=OWNER_DELETED, nodes=1, quiet_seconds=20, invariants=[no_orphans()])
async def service_endpoints(steps: Steps) -> None:
    await steps.apply(SERVICE)
    await steps.apply({**pod("one"), "metadata": {"name": "one", "labels": LABELS}})
    await steps.advance("20s")
    await steps.apply({**pod("two"), "metadata": {"name": "two", "labels": LABELS}})
    await steps.advance("20s")
    await steps.patch("Pod", "one", {"metadata": {"labels": {"app": "other"}}})
    await steps.advance("5s")
    await steps.patch("Service", "web", {"spec": {"ports": [{"port": 81, "targetPort": 8080}]}})
    await steps.advance("3m")
    await steps.delete("Service", "web")
    await steps.advance("10s")


@scenario(controllers=True, extra_writes=OWNER_DELETED, quiet_seconds=20, nodes=1, invariants=[no_orphans()])
async def mirrored_endpoints(steps: Steps) -> None:
    """Endpoints of a service without a selector get a slice."""
    spec = {"ports": [{"port": 80}]}
    await steps.apply({**SERVICE, "spec": spec})
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}}
    port = [{"port": 80}]
    await steps.apply({**endpoints, "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": port}]})
    await steps.advance("10s")
    await steps.apply({**endpoints, "subsets": [{"addresses": [{"ip": "192.0.2.2"}], "ports": port}]})
    await steps.advance("3m")
    await steps.delete("Endpoints", "web")
    await steps.advance("10s")


# Disruption budgets and autoscaling


@scenario(controllers=True, nodes=1, quiet_seconds=20)
async def disruption_budget(steps: Steps) -> None:
    """The allowed disruptions follow the pods; an eviction uses one of them."""
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    await steps.apply(apps("ReplicaSet", replicas=3))
    await steps.apply({**budget, "spec": {"minAvailable": 2, "selector": SELECTOR}})
    await steps.wait("PodDisruptionBudget", "web", condition="{.status.disruptionsAllowed}=1")
    pods = await steps.client.list(Pod, namespace="default", labels="app=web")
    first = min(each.name for each in pods)
    eviction = Eviction(metadata=ObjectMeta(name=first, namespace="default"))
    await steps.client.subresource("eviction", Pod, first, namespace="default").create(eviction)
    await steps.advance("30s")
    await steps.patch("PodDisruptionBudget", "web", {"spec": {"minAvailable": 1}})
    await steps.advance("10s")


@scenario(
    controllers=True,
    nodes=1,
    quiet_seconds=60,
    invariants=[at_most(4)],
    # A controller that is killed after it has scaled does not know when; nor does that of Kubernetes.
    tolerate=["HorizontalPodAutoscaler:status.lastScaleTime"],
)
async def autoscaling(steps: Steps) -> None:
    """Pods use twice the target, so that two become four."""
    made = apps("Deployment", replicas=2)
    made["spec"]["template"]["metadata"]["annotations"] = {"sim.kubewright.dev/cpu": "100m"}
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    metric["resource"]["target"]["averageUtilization"] = 50  # type: ignore[index]
    await steps.apply(made)
    await steps.wait("Deployment", "web", condition="Available")
    await steps.apply(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 1,
                "maxReplicas": 4,
                "metrics": [metric],
            },
        }
    )
    await steps.advance("2m")


# Volumes


@scenario(controllers=True, nodes=1, quiet_seconds=20)
async def bound_volume(steps: Steps) -> None:
    """A claim is bound to an existing volume, which is released with the claim."""
    await steps.apply(VOLUME)
    await steps.apply(CLAIM)
    await steps.wait("PersistentVolumeClaim", "data", condition="{.status.phase}=Bound")
    await steps.advance("5s")
    await steps.delete("PersistentVolumeClaim", "data")
    await steps.wait("PersistentVolume", "disk", condition="{.status.phase}=Released")


@scenario(controllers=True, nodes=1, quiet_seconds=20, setup=[STANDARD])
async def provisioned_volume(steps: Steps) -> None:
    """A volume is provisioned for a claim, expanded, and deleted with it."""
    claim = {**CLAIM, "spec": {**CLAIM["spec"], "storageClassName": "standard"}}
    await steps.apply(claim)
    await steps.wait("PersistentVolumeClaim", "data", condition="{.status.phase}=Bound")
    await steps.patch(
        "PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    )
    await steps.advance("10s")
    await steps.delete("PersistentVolumeClaim", "data")
    await steps.advance("10s")


@always
def volume_of_claim_exists(state: ClusterState) -> str | None:
    """A volume is not deleted while its claim exists."""
    for gone in state.deleted():
        uid = gone.get("spec", "claimRef", "uid")
        if gone.key.kind == "PersistentVolume" and uid and state.by_uid(uid) is not None:
            return f"{gone.name} was deleted, and its claim exists"
    return None


@scenario(controllers=True, nodes=1, quiet_seconds=20, setup=[STANDARD], invariants=[volume_of_claim_exists])
async def reserved_volume(steps: Steps) -> None:
    """Another provisioner creates the volume of a claim, as a CSI driver does."""
    reserved = {**CLAIM, "spec": {**CLAIM["spec"], "storageClassName": "other", "volumeName": "disk"}}
    claim = await steps.apply(reserved)
    reference = {"namespace": "default", "name": "data", "uid": claim["metadata"]["uid"]}
    spec = {**VOLUME["spec"], "storageClassName": "other", "persistentVolumeReclaimPolicy": "Delete"}
    annotations = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
    await steps.apply(
        {
            **VOLUME,
            "metadata": {"name": "disk", "annotations": annotations},
            "spec": {**spec, "claimRef": reference},
        }
    )
    await steps.advance("10s")


@scenario(
    controllers=True,
    extra_writes=OWNER_DELETED,
    nodes=1,
    quiet_seconds=20,
    setup=[STANDARD],
    invariants=[no_orphans()],
)
async def ephemeral_volume(steps: Steps) -> None:
    spec = {**CLAIM["spec"], "storageClassName": "standard"}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    await steps.apply(pod("web", volumes=volumes, terminationGracePeriodSeconds=1))
    await steps.advance("3m")
    await steps.delete("Pod", "web")
    await steps.advance("20s")


# Nodes


@scenario(controllers=True, nodes=1, quiet_seconds=20)
async def node_without_kubelet(steps: Steps) -> None:
    """A node without heartbeats becomes unknown and gets taints; its pod is evicted; the node is deleted."""
    await steps.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dead"}})
    tolerations = [
        {
            "key": f"node.kubernetes.io/{each}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 30,
        }
        for each in ("not-ready", "unreachable")
    ]
    await steps.apply(pod("web", nodeName="dead", tolerations=tolerations))
    await steps.advance("2m")
    await steps.delete("Node", "dead")
    await steps.wait("Pod", "web", absent=True)


@scenario(controllers=True, nodes=1, quiet_seconds=20)
async def tainted_node(steps: Steps) -> None:
    """Pods that do not tolerate a taint are evicted, others after their toleration has ended."""
    toleration = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
    await steps.apply(pod("now", terminationGracePeriodSeconds=1))
    await steps.apply(
        pod("later", tolerations=[{**toleration, "tolerationSeconds": 20}], terminationGracePeriodSeconds=1)
    )
    await steps.apply(pod("never", tolerations=[toleration]))
    await steps.advance("10s")
    node = min(each.name for each in await steps.client.list(Node))
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await steps.patch("Node", node, {"spec": {"taints": [taint]}})
    await steps.wait("Pod", "later", absent=True)


def explored() -> list[Explored]:
    """Return the scenarios with the controllers that they explore."""
    rows = [
        ("Deployment, roll out", "deployment-controller", deployment_rollout),
        ("Deployment, recreate", "deployment-controller", deployment_recreate),
        ("Deployment, scale and delete", "deployment-controller", deployment_scale_and_delete),
        ("ReplicaSet", "replicaset-controller", replica_set_scale),
        ("StatefulSet, roll out", "statefulset-controller", stateful_set_rollout),
        ("StatefulSet, claims", "statefulset-controller", stateful_set_scale_with_claims),
        ("DaemonSet", "daemonset-controller", daemon_set_rollout),
        ("Job", "job-controller", job_with_completions),
        ("Job, suspended", "job-controller", job_suspended),
        ("Job, TTL", "ttl-after-finished-controller", job_is_deleted_after_ttl),
        ("CronJob", "cronjob-controller", cron_job),
        ("EndpointSlice", "endpointslice-controller", service_endpoints),
        ("Endpoints", "endpoints-controller", service_endpoints),
        ("EndpointSlice mirroring", "endpointslice-mirroring-controller", mirrored_endpoints),
        ("PodDisruptionBudget", "disruption-controller", disruption_budget),
        ("HorizontalPodAutoscaler", "horizontal-pod-autoscaler-controller", autoscaling),
        ("PersistentVolume, bound", "persistentvolume-binder-controller", bound_volume),
        ("PersistentVolume, provisioned", "persistentvolume-binder-controller", provisioned_volume),
        ("PersistentVolume, reserved", "persistentvolume-binder-controller", reserved_volume),
        ("ephemeral volumes", "ephemeral-volume-controller", ephemeral_volume),
        ("node lifecycle", "node-lifecycle-controller", node_without_kubelet),
        ("taint eviction", "taint-eviction-controller", tainted_node),
        ("pod garbage collector", "pod-garbage-collector-controller", node_without_kubelet),
    ]
    return [Explored(name, factory(controller), steps) for name, controller, steps in rows]


def factory(controller: str) -> Any:
    """Return a factory of a program with one controller."""
    return lambda: WorkloadControllers(controller)
