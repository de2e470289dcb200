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

from typing import Any, NamedTuple


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


def _component(name: str, function: str, triggers: tuple[str, ...], **options: Any) -> Component:
    """Return a component of this package: `function` is `module:function` below `kubewright.workloads`."""
    module, _, function = function.partition(":")
    return Component(name, f"kubewright.workloads.{module}", function, triggers, **{"user": name, **options})


COMPONENTS: tuple[Component, ...] = (
    _component("kubelet", "nodes.component:add_simulated_nodes", ("pods",), user="system:node:kubewright"),
    _component(
        "node-lifecycle-controller",
        "controllers.node_lifecycle:add_node_lifecycle_controller",
        ("pods",),
        user="node-controller",
        event_source="node-controller",
        text_triggers=(("nodes", _NOT_READY),),
    ),
    _component(
        "node-ipam-controller",
        "controllers.node_ipam:add_node_ipam_controller",
        ("nodes",),
        user="node-controller",
        event_source="cidrAllocator",
    ),
    _component(
        "taint-eviction-controller",
        "controllers.taint_eviction:add_taint_eviction_controller",
        ("pods",),
        user="node-controller",
    ),
    _component(
        "pod-garbage-collector-controller",
        "controllers.pod_garbage_collector:add_pod_garbage_collector",
        ("pods",),
        user="pod-garbage-collector",
    ),
    _component(
        "deployment-controller", "controllers.deployment:add_deployment_controller", ("deployments.apps",)
    ),
    _component(
        "daemonset-controller",
        "controllers.daemon_set:add_daemon_set_controller",
        ("daemonsets.apps",),
        user="daemon-set-controller",
    ),
    _component(
        "statefulset-controller",
        "controllers.stateful_set:add_stateful_set_controller",
        ("statefulsets.apps",),
    ),
    _component(
        "replicaset-controller", "controllers.replica_set:add_replica_set_controller", ("replicasets.apps",)
    ),
    _component(
        "replicationcontroller-controller",
        "controllers.replica_set:add_replication_controller_controller",
        ("replicationcontrollers",),
        user="replication-controller",
        event_source="replication-controller",
    ),
    _component(
        "endpointslice-controller",
        "controllers.endpoints:add_endpointslice_controller",
        ("services",),
        event_source="endpoint-slice-controller",
    ),
    _component(
        "endpoints-controller",
        "controllers.endpoints:add_endpoints_controller",
        ("services",),
        user="endpoint-controller",
        event_source="endpoint-controller",
    ),
    _component(
        "endpointslice-mirroring-controller",
        "controllers.endpoints:add_endpointslice_mirroring_controller",
        ("endpoints",),
        user="endpointslicemirroring-controller",
        event_source="endpoint-slice-mirroring-controller",
    ),
    _component("job-controller", "controllers.job:add_job_controller", ("jobs.batch",)),
    _component("cronjob-controller", "controllers.cron_job:add_cronjob_controller", ("cronjobs.batch",)),
    _component(
        "ttl-after-finished-controller",
        "controllers.ttl_after_finished:add_ttl_after_finished_controller",
        ("jobs.batch",),
    ),
    _component(
        "disruption-controller",
        "controllers.disruption:add_disruption_controller",
        ("poddisruptionbudgets.policy",),
        event_source="controllermanager",
    ),
    _component(
        "kube-scheduler",
        "scheduler.scheduler:add_scheduler",
        ("pods",),
        user="system:kube-scheduler",
        event_source="default-scheduler",
    ),
    _component(
        "horizontal-pod-autoscaler-controller",
        "controllers.pod_autoscaler:add_horizontal_pod_autoscaler_controller",
        ("horizontalpodautoscalers.autoscaling",),
        user="horizontal-pod-autoscaler",
        event_source="horizontal-pod-autoscaler",
    ),
    _component(
        "persistentvolume-binder-controller",
        "controllers.persistent_volumes:add_persistent_volume_binder_controller",
        ("persistentvolumeclaims", "persistentvolumes"),
        user="persistent-volume-binder",
        event_source="persistentvolume-controller",
    ),
    _component(
        "ephemeral-volume-controller",
        "controllers.persistent_volumes:add_ephemeral_volume_controller",
        ("pods",),
        event_source="ephemeral_volume",
    ),
    _component(
        "certificatesigningrequest-approving-controller",
        "controllers.certificates:add_certificate_approving_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        user="certificate-controller",
    ),
    _component(
        "certificatesigningrequest-signing-controller",
        "controllers.certificates:add_certificate_signing_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        user="certificate-controller",
    ),
    _component(
        "certificatesigningrequest-cleaner-controller",
        "controllers.certificates:add_certificate_cleaner_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        user="certificate-controller",
    ),
    _component(
        "podcertificaterequest-cleaner-controller",
        "controllers.certificates:add_pod_certificate_cleaner_controller",
        ("podcertificaterequests.certificates.k8s.io",),
        user="podcertificaterequestcleaner",
    ),
    _component(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "controllers.certificates:add_trust_bundle_publisher",
        ("clustertrustbundles.certificates.k8s.io",),
        user="kube-apiserver-serving-clustertrustbundle-publisher",
        text_triggers=(("pods", _TRUST_BUNDLE),),
    ),
    _component(
        "kubelet-serving-approving-controller",
        "controllers.certificates:add_kubelet_serving_approving_controller",
        ("certificatesigningrequests.certificates.k8s.io",),
        user="system:kubelet-serving-approver",
    ),
    _component(
        "bootstrap-signer-controller",
        "controllers.bootstrap_tokens:add_bootstrap_signer_controller",
        ("secrets",),
        user="bootstrap-signer",
        trigger_text=_BOOTSTRAP_TOKEN,
    ),
    _component(
        "token-cleaner-controller",
        "controllers.bootstrap_tokens:add_token_cleaner_controller",
        ("secrets",),
        user="token-cleaner",
        trigger_text=_BOOTSTRAP_TOKEN,
    ),
    _component(
        "resourceclaim-controller",
        "controllers.resource_claims:add_resource_claim_controller",
        ("resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"),
        user="resource-claim-controller",
        event_source="resource_claim",
    ),
    _component(
        "service-cidr-controller",
        "controllers.service_cidr:add_service_cidr_controller",
        ("servicecidrs.networking.k8s.io",),
        user="service-cidrs-controller",
    ),
    _component(
        "legacy-serviceaccount-token-cleaner-controller",
        "controllers.legacy_tokens:add_legacy_token_cleaner_controller",
        ("secrets",),
        user="legacy-service-account-token-cleaner",
    ),
    _component(
        "persistentvolume-attach-detach-controller",
        "controllers.attach_detach:add_attach_detach_controller",
        ("csidrivers.storage.k8s.io",),
        user="attachdetach-controller",
        event_source="attachdetach-controller",
    ),
    _component(
        "service-lb-controller",
        "cloud.components:add_service_lb_controller",
        ("services",),
        user="service-controller",
        event_source="service-controller",
        trigger_text='"LoadBalancer"',
    ),
    _component(
        "cloud-node-controller",
        "cloud.components:add_cloud_node_controller",
        ("nodes",),
        user="node-controller",
        trigger_text=_UNINITIALIZED,
    ),
    _component(
        "cloud-node-lifecycle-controller",
        "cloud.components:add_cloud_node_lifecycle_controller",
        ("nodes",),
        user="node-controller",
        trigger_text=_UNINITIALIZED,
    ),
    _component(
        "node-route-controller",
        "cloud.components:add_node_route_controller",
        ("nodes",),
        user="route-controller",
        event_source="route_controller",
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
