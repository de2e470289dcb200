"""The table of components, and one module per controller.

A component is a controller of kube-controller-manager, the scheduler, or another part that
`kubewright.workloads.Workloads` starts. Its module is imported, and its function called with a
`ComponentManager`, when the first object of one of its trigger resources exists. A new controller is a module
with a function `add_<name>_controller(manager)` and a line in `COMPONENTS`.

- `attach_detach`: attaching of CSI volumes to nodes (`persistentvolume-attach-detach-controller`)
- `certificates`: controllers of the requests for certificates, and of trust bundles
- `cron_job`: controller of CronJobs (`cronjob-controller`)
- `daemon_set`: DaemonSets: one pod on each node that matches
- `deployment`: roll pod templates out through ReplicaSets
- `disruption`: status of PodDisruptionBudgets (`disruption-controller`)
- `endpoints`: controllers that publish the addresses of the pods behind services
- `job`: controller of Jobs (`job-controller`)
- `bootstrap_tokens`: signatures of the discovery document, and deletion of expired tokens
- `legacy_tokens`: deletion of unused tokens of service accounts
  (`legacy-serviceaccount-token-cleaner-controller`)
- `node_ipam`: pod CIDRs of nodes
- `node_lifecycle`: conditions and taints of nodes whose kubelet has stopped, and the
  readiness of their pods
- `persistent_volumes`: controllers of persistent volumes and claims
- `pod_autoscaler`: controller of HorizontalPodAutoscalers (`horizontal-pod-autoscaler-controller`)
- `pod_garbage_collector`: pod garbage collection: pods that no kubelet will delete
- `replica_set`: ReplicaSet and ReplicationController: keep a number of pods running
- `resource_claims`: ResourceClaims of pods, for dynamic resource allocation (`resourceclaim-controller`)
- `service_cidr`: ServiceCIDRs: readiness, and protection of ranges with addresses in use
  (`service-cidr-controller`)
- `stateful_set`: StatefulSets: pods with an ordinal, a stable name and their own volume claims
- `taint_eviction`: deletes pods that do not tolerate a NoExecute taint of their node, now or
  after a time
- `ttl_after_finished`: deletion of finished Jobs after `spec.ttlSecondsAfterFinished`
  (`ttl-after-finished-controller`)
"""

from __future__ import annotations

from typing import NamedTuple


class Component(NamedTuple):
    """A component and the condition that starts it."""

    name: str
    """Name for `--disable-controllers`, as in kube-controller-manager."""
    module: str
    """Module that is imported when the component starts."""
    function: str
    """Function of the module that adds the component: plain or async, with a `ComponentManager`."""
    triggers: tuple[str, ...]
    """Resources, such as `deployments.apps`. The first object of any of them starts the component; a
    component without triggers starts immediately."""
    user: str
    """Service account in `kube-system`, or a user name with a colon."""
    event_source: str = ""
    """Component name in events; by default the name of the component."""
    trigger_text: str = ""
    """Text in the JSON of the objects that start the component; by default any object does."""
    text_triggers: tuple[tuple[str, str], ...] = ()
    """Further resources, each with the text that the JSON of an object has to contain."""


_UNINITIALIZED = '"node.cloudprovider.kubernetes.io/uninitialized"'
"""Taint of nodes that a cloud has to initialize."""

_BOOTSTRAP_TOKEN = '"bootstrap.kubernetes.io/token"'  # noqa: S105 - a type
"""Type of the Secrets of bootstrap tokens."""

_TRUST_BUNDLE = '"clusterTrustBundle"'
"""Volume source of pods that mount trust bundles."""

_NOT_READY = '"node.kubernetes.io/not-ready"'
"""Taint of nodes that have registered, until they are ready."""

COMPONENTS: tuple[Component, ...] = (
    Component(
        "kubelet",
        "kubewright.workloads.nodes.component",
        "add_simulated_nodes",
        ("pods",),
        "system:node:kubewright",
        "kubelet",
    ),
    Component(
        "node-lifecycle-controller",
        "kubewright.workloads.controllers.node_lifecycle",
        "add_node_lifecycle_controller",
        ("pods",),
        "node-controller",
        "node-controller",
        text_triggers=(("nodes", _NOT_READY),),
    ),
    Component(
        "node-ipam-controller",
        "kubewright.workloads.controllers.node_ipam",
        "add_node_ipam_controller",
        ("nodes",),
        "node-controller",
        "cidrAllocator",
    ),
    Component(
        "taint-eviction-controller",
        "kubewright.workloads.controllers.taint_eviction",
        "add_taint_eviction_controller",
        ("pods",),
        "node-controller",
        "taint-eviction-controller",
    ),
    Component(
        "pod-garbage-collector-controller",
        "kubewright.workloads.controllers.pod_garbage_collector",
        "add_pod_garbage_collector",
        ("pods",),
        "pod-garbage-collector",
    ),
    Component(
        "deployment-controller",
        "kubewright.workloads.controllers.deployment",
        "add_deployment_controller",
        ("deployments.apps",),
        "deployment-controller",
    ),
    Component(
        "daemonset-controller",
        "kubewright.workloads.controllers.daemon_set",
        "add_daemon_set_controller",
        ("daemonsets.apps",),
        "daemon-set-controller",
    ),
    Component(
        "statefulset-controller",
        "kubewright.workloads.controllers.stateful_set",
        "add_stateful_set_controller",
        ("statefulsets.apps",),
        "statefulset-controller",
    ),
    Component(
        "replicaset-controller",
        "kubewright.workloads.controllers.replica_set",
        "add_replica_set_controller",
        ("replicasets.apps",),
        "replicaset-controller",
    ),
    Component(
        "replicationcontroller-controller",
        "kubewright.workloads.controllers.replica_set",
        "add_replication_controller_controller",
        ("replicationcontrollers",),
        "replication-controller",
        "replication-controller",
    ),
    Component(
        "endpointslice-controller",
        "kubewright.workloads.controllers.endpoints",
        "add_endpointslice_controller",
        ("services",),
        "endpointslice-controller",
        "endpoint-slice-controller",
    ),
    Component(
        "endpoints-controller",
        "kubewright.workloads.controllers.endpoints",
        "add_endpoints_controller",
        ("services",),
        "endpoint-controller",
        "endpoint-controller",
    ),
    Component(
        "endpointslice-mirroring-controller",
        "kubewright.workloads.controllers.endpoints",
        "add_endpointslice_mirroring_controller",
        ("endpoints",),
        "endpointslicemirroring-controller",
        "endpoint-slice-mirroring-controller",
    ),
    Component(
        "job-controller",
        "kubewright.workloads.controllers.job",
        "add_job_controller",
        ("jobs.batch",),
        "job-controller",
    ),
    Component(
        "cronjob-controller",
        "kubewright.workloads.controllers.cron_job",
        "add_cronjob_controller",
        ("cronjobs.batch",),
        "cronjob-controller",
    ),
    Component(
        "ttl-after-finished-controller",
        "kubewright.workloads.controllers.ttl_after_finished",
        "add_ttl_after_finished_controller",
        ("jobs.batch",),
        "ttl-after-finished-controller",
    ),
    Component(
        "disruption-controller",
        "kubewright.workloads.controllers.disruption",
        "add_disruption_controller",
        ("poddisruptionbudgets.policy",),
        "disruption-controller",
        "controllermanager",
    ),
    Component(
        "kube-scheduler",
        "kubewright.workloads.scheduler.scheduler",
        "add_scheduler",
        ("pods",),
        "system:kube-scheduler",
        "default-scheduler",
    ),
    Component(
        "horizontal-pod-autoscaler-controller",
        "kubewright.workloads.controllers.pod_autoscaler",
        "add_horizontal_pod_autoscaler_controller",
        ("horizontalpodautoscalers.autoscaling",),
        "horizontal-pod-autoscaler",
        "horizontal-pod-autoscaler",
    ),
    Component(
        "persistentvolume-binder-controller",
        "kubewright.workloads.controllers.persistent_volumes",
        "add_persistent_volume_binder_controller",
        ("persistentvolumeclaims", "persistentvolumes"),
        "persistent-volume-binder",
        "persistentvolume-controller",
    ),
    Component(
        "ephemeral-volume-controller",
        "kubewright.workloads.controllers.persistent_volumes",
        "add_ephemeral_volume_controller",
        ("pods",),
        "ephemeral-volume-controller",
        "ephemeral_volume",
    ),
    Component(
        "certificatesigningrequest-approving-controller",
        "kubewright.workloads.controllers.certificates",
        "add_certificate_approving_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        "certificate-controller",
    ),
    Component(
        "certificatesigningrequest-signing-controller",
        "kubewright.workloads.controllers.certificates",
        "add_certificate_signing_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        "certificate-controller",
    ),
    Component(
        "certificatesigningrequest-cleaner-controller",
        "kubewright.workloads.controllers.certificates",
        "add_certificate_cleaner_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        "certificate-controller",
    ),
    Component(
        "podcertificaterequest-cleaner-controller",
        "kubewright.workloads.controllers.certificates",
        "add_pod_certificate_cleaner_controller",
        ("podcertificaterequests.certificates.k8s.io",),
        "podcertificaterequestcleaner",
    ),
    Component(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "kubewright.workloads.controllers.certificates",
        "add_trust_bundle_publisher",
        ("clustertrustbundles.certificates.k8s.io",),
        "kube-apiserver-serving-clustertrustbundle-publisher",
        text_triggers=(("pods", _TRUST_BUNDLE),),
    ),
    Component(
        "kubelet-serving-approving-controller",
        "kubewright.workloads.controllers.certificates",
        "add_kubelet_serving_approving_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        "system:kubelet-serving-approver",
    ),
    Component(
        "bootstrap-signer-controller",
        "kubewright.workloads.controllers.bootstrap_tokens",
        "add_bootstrap_signer_controller",
        ("secrets",),
        "bootstrap-signer",
        trigger_text=_BOOTSTRAP_TOKEN,
    ),
    Component(
        "token-cleaner-controller",
        "kubewright.workloads.controllers.bootstrap_tokens",
        "add_token_cleaner_controller",
        ("secrets",),
        "token-cleaner",
        trigger_text=_BOOTSTRAP_TOKEN,
    ),
    Component(
        "resourceclaim-controller",
        "kubewright.workloads.controllers.resource_claims",
        "add_resource_claim_controller",
        ("resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"),
        "resource-claim-controller",
        "resource_claim",
    ),
    Component(
        "service-cidr-controller",
        "kubewright.workloads.controllers.service_cidr",
        "add_service_cidr_controller",
        ("servicecidrs.networking.k8s.io",),
        "service-cidrs-controller",
        "service-cidr-controller",
    ),
    Component(
        "legacy-serviceaccount-token-cleaner-controller",
        "kubewright.workloads.controllers.legacy_tokens",
        "add_legacy_token_cleaner_controller",
        ("secrets",),
        "legacy-service-account-token-cleaner",
    ),
    Component(
        "persistentvolume-attach-detach-controller",
        "kubewright.workloads.controllers.attach_detach",
        "add_attach_detach_controller",
        ("csidrivers.storage.k8s.io",),
        "attachdetach-controller",
        "attachdetach-controller",
    ),
    Component(
        "service-lb-controller",
        "kubewright.workloads.cloud.components",
        "add_service_lb_controller",
        ("services",),
        "service-controller",
        "service-controller",
        '"LoadBalancer"',
    ),
    Component(
        "cloud-node-controller",
        "kubewright.workloads.cloud.components",
        "add_cloud_node_controller",
        ("nodes",),
        "node-controller",
        trigger_text=_UNINITIALIZED,
    ),
    Component(
        "cloud-node-lifecycle-controller",
        "kubewright.workloads.cloud.components",
        "add_cloud_node_lifecycle_controller",
        ("nodes",),
        "node-controller",
        trigger_text=_UNINITIALIZED,
    ),
    Component(
        "node-route-controller",
        "kubewright.workloads.cloud.components",
        "add_node_route_controller",
        ("nodes",),
        "route-controller",
        "route_controller",
        trigger_text=_UNINITIALIZED,
    ),
)
"""All components."""


PROGRAMS = frozenset(("kube-scheduler", "kubelet"))
"""Components that are programs of their own in a real cluster, not controllers."""

CLOUD = frozenset(
    (
        "cloud-node-controller",
        "cloud-node-lifecycle-controller",
        "node-route-controller",
        "service-lb-controller",
    )
)
"""Components that need a cloud provider: the controllers of a cloud controller manager."""


REAL_NODES = frozenset(("kubelet-serving-approving-controller", "node-ipam-controller"))
"""Components for kubelets that join; simulated nodes have addresses of their own, and no certificates."""


def component_names() -> frozenset[str]:
    """Return the names that can be disabled."""
    return frozenset(component.name for component in COMPONENTS)


__all__ = ["CLOUD", "COMPONENTS", "PROGRAMS", "REAL_NODES", "Component", "component_names"]
