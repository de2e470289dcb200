"""Types of `v1`, the core group.

Written by tools/generate_builtins.py; change that instead.
"""

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, LabelSelector, MetaObject, ObjectList, ObjectMeta, ObjectReference
from kubewright.api.objects import Struct, field
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import MicroTime, Time


class AWSElasticBlockStoreVolumeSource(Struct):
    fs_type: str | None = None
    partition: int | None = None
    read_only: bool | None = None
    volume_id: str | None = field(default=None, name="volumeID")


class NodeSelectorRequirement(Struct):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(Struct):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Struct):
    preference: NodeSelectorTerm | None = None
    weight: int | None = None


class NodeAffinity(Struct):
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(Struct):
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None


class WeightedPodAffinityTerm(Struct):
    pod_affinity_term: PodAffinityTerm | None = None
    weight: int | None = None


class PodAffinity(Struct):
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class PodAntiAffinity(Struct):
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class AppArmorProfile(Struct):
    localhost_profile: str | None = None
    type: str | None = None


class AttachedVolume(Struct):
    device_path: str | None = None
    name: str | None = None


class AzureDiskVolumeSource(Struct):
    caching_mode: str | None = None
    disk_name: str | None = None
    disk_uri: str | None = field(default=None, name="diskURI")
    fs_type: str | None = None
    kind: str | None = None
    read_only: bool | None = None


class AzureFilePersistentVolumeSource(Struct):
    read_only: bool | None = None
    secret_name: str | None = None
    secret_namespace: str | None = None
    share_name: str | None = None


class AzureFileVolumeSource(Struct):
    read_only: bool | None = None
    secret_name: str | None = None
    share_name: str | None = None


class Binding(MetaObject):
    gvk = GroupVersionKind("", "v1", "Binding")

    target: ObjectReference | None = None


class SecretReference(Struct):
    name: str | None = None
    namespace: str | None = None


class CSIPersistentVolumeSource(Struct):
    controller_expand_secret_ref: SecretReference | None = None
    controller_publish_secret_ref: SecretReference | None = None
    driver: str | None = None
    fs_type: str | None = None
    node_expand_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    read_only: bool | None = None
    volume_attributes: dict[str, str] | None = None
    volume_handle: str | None = None


class LocalObjectReference(Struct):
    name: str | None = None


class CSIVolumeSource(Struct):
    driver: str | None = None
    fs_type: str | None = None
    node_publish_secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    volume_attributes: dict[str, str] | None = None


class Capabilities(Struct):
    add: list[str] | None = None
    drop: list[str] | None = None


class CephFSPersistentVolumeSource(Struct):
    monitors: list[str] | None = None
    path: str | None = None
    read_only: bool | None = None
    secret_file: str | None = None
    secret_ref: SecretReference | None = None
    user: str | None = None


class CephFSVolumeSource(Struct):
    monitors: list[str] | None = None
    path: str | None = None
    read_only: bool | None = None
    secret_file: str | None = None
    secret_ref: LocalObjectReference | None = None
    user: str | None = None


class CinderPersistentVolumeSource(Struct):
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None
    volume_id: str | None = field(default=None, name="volumeID")


class CinderVolumeSource(Struct):
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    volume_id: str | None = field(default=None, name="volumeID")


class ClientIPConfig(Struct):
    timeout_seconds: int | None = None


class ClusterTrustBundleProjection(Struct):
    label_selector: LabelSelector | None = None
    name: str | None = None
    optional: bool | None = None
    path: str | None = None
    signer_name: str | None = None
    user: int | None = None


class ComponentCondition(Struct):
    error: str | None = None
    message: str | None = None
    status: str | None = None
    type: str | None = None


class ComponentStatus(MetaObject):
    gvk = GroupVersionKind("", "v1", "ComponentStatus")

    conditions: list[ComponentCondition] | None = None


class ComponentStatusList(ObjectList[ComponentStatus]):
    gvk = GroupVersionKind("", "v1", "ComponentStatusList")


class ConfigMap(MetaObject):
    gvk = GroupVersionKind("", "v1", "ConfigMap")

    binary_data: dict[str, bytes] | None = None
    data: dict[str, str] | None = None
    immutable: bool | None = None


class ConfigMapEnvSource(Struct):
    name: str | None = None
    optional: bool | None = None


class ConfigMapKeySelector(Struct):
    key: str | None = None
    name: str | None = None
    optional: bool | None = None


class ConfigMapList(ObjectList[ConfigMap]):
    gvk = GroupVersionKind("", "v1", "ConfigMapList")


class ConfigMapNodeConfigSource(Struct):
    kubelet_config_key: str | None = None
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    uid: str | None = None


class KeyToPath(Struct):
    key: str | None = None
    mode: int | None = None
    path: str | None = None
    user: int | None = None


class ConfigMapProjection(Struct):
    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None


class ConfigMapVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None


class ContainerPort(Struct):
    container_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    host_port: int | None = None
    name: str | None = None
    protocol: str | None = None


class ContainerResizePolicy(Struct):
    resource_name: str | None = None
    restart_policy: str | None = None


class ContainerRestartRuleOnExitCodes(Struct):
    operator: str | None = None
    values: list[int] | None = None


class ContainerRestartRule(Struct):
    action: str | None = None
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class SecretEnvSource(Struct):
    name: str | None = None
    optional: bool | None = None


class EnvFromSource(Struct):
    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str | None = None
    secret_ref: SecretEnvSource | None = None


class FileKeySelector(Struct):
    key: str | None = None
    optional: bool | None = None
    path: str | None = None
    volume_name: str | None = None


class ObjectFieldSelector(Struct):
    api_version: str | None = None
    field_path: str | None = None


class ResourceFieldSelector(Struct):
    container_name: str | None = None
    divisor: Quantity | None = None
    resource: str | None = None


class SecretKeySelector(Struct):
    key: str | None = None
    name: str | None = None
    optional: bool | None = None


class EnvVarSource(Struct):
    config_map_key_ref: ConfigMapKeySelector | None = None
    field_ref: ObjectFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(Struct):
    name: str | None = None
    value: str | None = None
    value_from: EnvVarSource | None = None


class ExecAction(Struct):
    command: list[str] | None = None


class HTTPHeader(Struct):
    name: str | None = None
    value: str | None = None


class HTTPGetAction(Struct):
    host: str | None = None
    http_headers: list[HTTPHeader] | None = None
    path: str | None = None
    port: int | str | None = None
    protocol: str | None = None
    scheme: str | None = None


class SleepAction(Struct):
    seconds: int | None = None


class TCPSocketAction(Struct):
    host: str | None = None
    port: int | str | None = None


class LifecycleHandler(Struct):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(Struct):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class GRPCAction(Struct):
    mode: str | None = None
    port: int | None = None
    service: str | None = None


class Probe(Struct):
    exec: ExecAction | None = None
    failure_threshold: int | None = None
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int | None = None


class ResourceClaim(Struct):
    name: str | None = None
    request: str | None = None


class ResourceRequirements(Struct):
    claims: list[ResourceClaim] | None = None
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class SELinuxOptions(Struct):
    level: str | None = None
    role: str | None = None
    type: str | None = None
    user: str | None = None


class SeccompProfile(Struct):
    localhost_profile: str | None = None
    type: str | None = None


class WindowsSecurityContextOptions(Struct):
    gmsa_credential_spec: str | None = None
    gmsa_credential_spec_name: str | None = None
    host_process: bool | None = None
    run_as_user_name: str | None = None


class SecurityContext(Struct):
    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class VolumeDevice(Struct):
    device_path: str | None = None
    name: str | None = None


class VolumeMount(Struct):
    bind_mount_options: list[str] | None = None
    mount_path: str | None = None
    mount_propagation: str | None = None
    name: str | None = None
    read_only: bool | None = None
    recursive_read_only: str | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None


class Container(Struct):
    args: list[str] | None = None
    command: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str | None = None
    ports: list[ContainerPort] | None = None
    readiness_probe: Probe | None = None
    resize_policy: list[ContainerResizePolicy] | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    tty: bool | None = None
    volume_devices: list[VolumeDevice] | None = None
    volume_mounts: list[VolumeMount] | None = None
    working_dir: str | None = None


class ContainerExtendedResourceRequest(Struct):
    container_name: str | None = None
    request_name: str | None = None
    resource_name: str | None = None


class ContainerImage(Struct):
    names: list[str] | None = None
    size_bytes: int | None = None


class ContainerStateRunning(Struct):
    started_at: Time | None = None


class ContainerStateTerminated(Struct):
    container_id: str | None = field(default=None, name="containerID")
    exit_code: int | None = None
    finished_at: Time | None = None
    message: str | None = None
    reason: str | None = None
    signal: int | None = None
    started_at: Time | None = None


class ContainerStateWaiting(Struct):
    message: str | None = None
    reason: str | None = None


class ContainerState(Struct):
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class LinuxContainerUser(Struct):
    gid: int | None = None
    supplemental_groups: list[int] | None = None
    uid: int | None = None


class ContainerUser(Struct):
    linux: LinuxContainerUser | None = None


class ResourceHealth(Struct):
    health: str | None = None
    message: str | None = None
    resource_id: str | None = field(default=None, name="resourceID")


class ResourceStatus(Struct):
    name: str | None = None
    resources: list[ResourceHealth] | None = None


class ImageVolumeStatus(Struct):
    image_ref: str | None = None


class VolumeStatus(Struct):
    image: ImageVolumeStatus | None = None


class VolumeMountStatus(Struct):
    mount_path: str | None = None
    name: str | None = None
    read_only: bool | None = None
    recursive_read_only: str | None = None
    volume_status: VolumeStatus | None = None


class ContainerStatus(Struct):
    allocated_resources: dict[str, Quantity] | None = None
    allocated_resources_status: list[ResourceStatus] | None = None
    container_id: str | None = field(default=None, name="containerID")
    image: str | None = None
    image_id: str | None = field(default=None, name="imageID")
    last_state: ContainerState | None = None
    name: str | None = None
    ready: bool | None = None
    resources: ResourceRequirements | None = None
    restart_count: int | None = None
    started: bool | None = None
    state: ContainerState | None = None
    stop_signal: str | None = None
    user: ContainerUser | None = None
    volume_mounts: list[VolumeMountStatus] | None = None


class DaemonEndpoint(Struct):
    port: int | None = field(default=None, name="Port")


class DownwardAPIVolumeFile(Struct):
    field_ref: ObjectFieldSelector | None = None
    mode: int | None = None
    path: str | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    user: int | None = None


class DownwardAPIProjection(Struct):
    items: list[DownwardAPIVolumeFile] | None = None


class DownwardAPIVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
    items: list[DownwardAPIVolumeFile] | None = None


class EmptyDirVolumeSource(Struct):
    medium: str | None = None
    mode: int | None = None
    size_limit: Quantity | None = None


class EndpointAddress(Struct):
    hostname: str | None = None
    ip: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(Struct):
    app_protocol: str | None = None
    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class EndpointSubset(Struct):
    addresses: list[EndpointAddress] | None = None
    not_ready_addresses: list[EndpointAddress] | None = None
    ports: list[EndpointPort] | None = None


class Endpoints(MetaObject):
    gvk = GroupVersionKind("", "v1", "Endpoints")

    subsets: list[EndpointSubset] | None = None


class EndpointsList(ObjectList[Endpoints]):
    gvk = GroupVersionKind("", "v1", "EndpointsList")


class EphemeralContainer(Struct):
    args: list[str] | None = None
    command: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str | None = None
    ports: list[ContainerPort] | None = None
    readiness_probe: Probe | None = None
    resize_policy: list[ContainerResizePolicy] | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    target_container_name: str | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    tty: bool | None = None
    volume_devices: list[VolumeDevice] | None = None
    volume_mounts: list[VolumeMount] | None = None
    working_dir: str | None = None


class TypedLocalObjectReference(Struct):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class TypedObjectReference(Struct):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class VolumeResourceRequirements(Struct):
    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class PersistentVolumeClaimSpec(Struct):
    access_modes: list[str] | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None


class PersistentVolumeClaimTemplate(Struct):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None


class EphemeralVolumeSource(Struct):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class EventSeries(Struct):
    count: int | None = None
    last_observed_time: MicroTime | None = None


class EventSource(Struct):
    component: str | None = None
    host: str | None = None


class Event(MetaObject):
    gvk = GroupVersionKind("", "v1", "Event")

    action: str | None = None
    count: int | None = None
    event_time: MicroTime | None = None
    first_timestamp: Time | None = None
    involved_object: ObjectReference | None = None
    last_timestamp: Time | None = None
    message: str | None = None
    reason: str | None = None
    related: ObjectReference | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    type: str | None = None


class EventList(ObjectList[Event]):
    gvk = GroupVersionKind("", "v1", "EventList")


class EvictionResponder(Struct):
    name: str | None = None
    priority: int | None = None


class FCVolumeSource(Struct):
    fs_type: str | None = None
    lun: int | None = None
    read_only: bool | None = None
    target_wwns: list[str] | None = field(default=None, name="targetWWNs")
    wwids: list[str] | None = None


class FlexPersistentVolumeSource(Struct):
    driver: str | None = None
    fs_type: str | None = None
    options: dict[str, str] | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None


class FlexVolumeSource(Struct):
    driver: str | None = None
    fs_type: str | None = None
    options: dict[str, str] | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class FlockerVolumeSource(Struct):
    dataset_name: str | None = None
    dataset_uuid: str | None = field(default=None, name="datasetUUID")


class GCEPersistentDiskVolumeSource(Struct):
    fs_type: str | None = None
    partition: int | None = None
    pd_name: str | None = None
    read_only: bool | None = None


class GitRepoVolumeSource(Struct):
    directory: str | None = None
    repository: str | None = None
    revision: str | None = None


class GlusterfsPersistentVolumeSource(Struct):
    endpoints: str | None = None
    endpoints_namespace: str | None = None
    path: str | None = None
    read_only: bool | None = None


class GlusterfsVolumeSource(Struct):
    endpoints: str | None = None
    path: str | None = None
    read_only: bool | None = None


class HostAlias(Struct):
    hostnames: list[str] | None = None
    ip: str | None = None


class HostIP(Struct):
    ip: str | None = None


class HostPathVolumeSource(Struct):
    path: str | None = None
    type: str | None = None


class ISCSIPersistentVolumeSource(Struct):
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    fs_type: str | None = None
    initiator_name: str | None = None
    iqn: str | None = None
    iscsi_interface: str | None = None
    lun: int | None = None
    portals: list[str] | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None
    target_portal: str | None = None


class ISCSIVolumeSource(Struct):
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    fs_type: str | None = None
    initiator_name: str | None = None
    iqn: str | None = None
    iscsi_interface: str | None = None
    lun: int | None = None
    portals: list[str] | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    target_portal: str | None = None


class ImageVolumeSource(Struct):
    pull_policy: str | None = None
    reference: str | None = None


class LimitRangeItem(Struct):
    default: dict[str, Quantity] | None = None
    default_request: dict[str, Quantity] | None = None
    max: dict[str, Quantity] | None = None
    max_limit_request_ratio: dict[str, Quantity] | None = None
    min: dict[str, Quantity] | None = None
    type: str | None = None


class LimitRangeSpec(Struct):
    limits: list[LimitRangeItem] | None = None


class LimitRange(MetaObject):
    gvk = GroupVersionKind("", "v1", "LimitRange")

    spec: LimitRangeSpec | None = None


class LimitRangeList(ObjectList[LimitRange]):
    gvk = GroupVersionKind("", "v1", "LimitRangeList")


class PortStatus(Struct):
    error: str | None = None
    port: int | None = None
    protocol: str | None = None


class LoadBalancerIngress(Struct):
    hostname: str | None = None
    ip: str | None = None
    ip_mode: str | None = None
    ports: list[PortStatus] | None = None


class LoadBalancerStatus(Struct):
    ingress: list[LoadBalancerIngress] | None = None


class LocalVolumeSource(Struct):
    fs_type: str | None = None
    path: str | None = None


class ModifyVolumeStatus(Struct):
    status: str | None = None
    target_volume_attributes_class_name: str | None = None


class NFSVolumeSource(Struct):
    path: str | None = None
    read_only: bool | None = None
    server: str | None = None


class NamespaceSpec(Struct):
    finalizers: list[str] | None = None


class NamespaceCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class NamespaceStatus(Struct):
    conditions: list[NamespaceCondition] | None = None
    phase: str | None = None


class Namespace(MetaObject):
    gvk = GroupVersionKind("", "v1", "Namespace")

    spec: NamespaceSpec | None = None
    status: NamespaceStatus | None = None


class NamespaceList(ObjectList[Namespace]):
    gvk = GroupVersionKind("", "v1", "NamespaceList")


class NodeConfigSource(Struct):
    config_map: ConfigMapNodeConfigSource | None = None


class NodePodPreemptionPolicy(Struct):
    disable_resize_preemption: list[str] | None = None


class Taint(Struct):
    effect: str | None = None
    key: str | None = None
    time_added: Time | None = None
    value: str | None = None


class NodeSpec(Struct):
    config_source: NodeConfigSource | None = None
    external_id: str | None = field(default=None, name="externalID")
    pod_cidr: str | None = field(default=None, name="podCIDR")
    pod_cidrs: list[str] | None = field(default=None, name="podCIDRs")
    pod_preemption_policy: NodePodPreemptionPolicy | None = None
    provider_id: str | None = field(default=None, name="providerID")
    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class NodeAddress(Struct):
    address: str | None = None
    type: str | None = None


class NodeCondition(Struct):
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class NodeConfigStatus(Struct):
    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str | None = None
    last_known_good: NodeConfigSource | None = None


class NodeDaemonEndpoints(Struct):
    kubelet_endpoint: DaemonEndpoint | None = None


class NodeFeatures(Struct):
    supplemental_groups_policy: bool | None = None


class NodeRuntimeHandlerFeatures(Struct):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Struct):
    features: NodeRuntimeHandlerFeatures | None = None
    name: str | None = None


class NodeSwapStatus(Struct):
    capacity: int | None = None


class NodeSystemInfo(Struct):
    architecture: str | None = None
    boot_id: str | None = field(default=None, name="bootID")
    container_runtime_version: str | None = None
    kernel_version: str | None = None
    kube_proxy_version: str | None = None
    kubelet_version: str | None = None
    machine_id: str | None = field(default=None, name="machineID")
    operating_system: str | None = None
    os_image: str | None = None
    running_in_user_namespace: bool | None = None
    swap: NodeSwapStatus | None = None
    system_uuid: str | None = field(default=None, name="systemUUID")


class NodeStatus(Struct):
    addresses: list[NodeAddress] | None = None
    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[NodeCondition] | None = None
    config: NodeConfigStatus | None = None
    daemon_endpoints: NodeDaemonEndpoints | None = None
    declared_features: list[str] | None = None
    features: NodeFeatures | None = None
    images: list[ContainerImage] | None = None
    node_info: NodeSystemInfo | None = None
    phase: str | None = None
    runtime_handlers: list[NodeRuntimeHandler] | None = None
    volumes_attached: list[AttachedVolume] | None = None
    volumes_in_use: list[str] | None = None


class Node(MetaObject):
    gvk = GroupVersionKind("", "v1", "Node")

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class NodeAllocatableMappedResources(Struct):
    name: str | None = None
    quantity: Quantity | None = None


class NodeAllocatableOverheadResources(Struct):
    name: str | None = None
    per_container: Quantity | None = None
    per_pod: Quantity | None = None


class NodeAllocatableResourceClaimStatus(Struct):
    containers: list[str] | None = None
    mapping: list[NodeAllocatableMappedResources] | None = None
    overhead: list[NodeAllocatableOverheadResources] | None = None
    resource_claim_name: str | None = None


class NodeList(ObjectList[Node]):
    gvk = GroupVersionKind("", "v1", "NodeList")


class PhotonPersistentDiskVolumeSource(Struct):
    fs_type: str | None = None
    pd_id: str | None = field(default=None, name="pdID")


class PortworxVolumeSource(Struct):
    fs_type: str | None = None
    read_only: bool | None = None
    volume_id: str | None = field(default=None, name="volumeID")


class QuobyteVolumeSource(Struct):
    group: str | None = None
    read_only: bool | None = None
    registry: str | None = None
    tenant: str | None = None
    user: str | None = None
    volume: str | None = None


class RBDPersistentVolumeSource(Struct):
    fs_type: str | None = None
    image: str | None = None
    keyring: str | None = None
    monitors: list[str] | None = None
    pool: str | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None
    user: str | None = None


class ScaleIOPersistentVolumeSource(Struct):
    fs_type: str | None = None
    gateway: str | None = None
    protection_domain: str | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None
    ssl_enabled: bool | None = None
    storage_mode: str | None = None
    storage_pool: str | None = None
    system: str | None = None
    volume_name: str | None = None


class StorageOSPersistentVolumeSource(Struct):
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: ObjectReference | None = None
    volume_name: str | None = None
    volume_namespace: str | None = None


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class VsphereVirtualDiskVolumeSource(Struct):
    fs_type: str | None = None
    storage_policy_id: str | None = field(default=None, name="storagePolicyID")
    storage_policy_name: str | None = None
    volume_path: str | None = None


class PersistentVolumeSpec(Struct):
    access_modes: list[str] | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFilePersistentVolumeSource | None = None
    capacity: dict[str, Quantity] | None = None
    cephfs: CephFSPersistentVolumeSource | None = None
    cinder: CinderPersistentVolumeSource | None = None
    claim_ref: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexPersistentVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    glusterfs: GlusterfsPersistentVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    iscsi: ISCSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    mount_options: list[str] | None = None
    nfs: NFSVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: str | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDPersistentVolumeSource | None = None
    scale_io: ScaleIOPersistentVolumeSource | None = field(default=None, name="scaleIO")
    storage_class_name: str | None = None
    storageos: StorageOSPersistentVolumeSource | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PersistentVolumeStatus(Struct):
    last_phase_transition_time: Time | None = None
    message: str | None = None
    phase: str | None = None
    reason: str | None = None


class PersistentVolume(MetaObject):
    gvk = GroupVersionKind("", "v1", "PersistentVolume")

    spec: PersistentVolumeSpec | None = None
    status: PersistentVolumeStatus | None = None


class PersistentVolumeClaimCondition(Struct):
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class VolumeHealthCondition(Struct):
    message: str | None = None
    reason: str | None = None
    status: str | None = None


class VolumeHealthStatus(Struct):
    health_conditions: list[VolumeHealthCondition] | None = None
    last_transition_time: Time | None = None


class PersistentVolumeClaimStatus(Struct):
    access_modes: list[str] | None = None
    allocated_resource_statuses: dict[str, str] | None = None
    allocated_resources: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[PersistentVolumeClaimCondition] | None = None
    current_volume_attributes_class_name: str | None = None
    health_status: VolumeHealthStatus | None = None
    modify_volume_status: ModifyVolumeStatus | None = None
    phase: str | None = None


class PersistentVolumeClaim(MetaObject):
    gvk = GroupVersionKind("", "v1", "PersistentVolumeClaim")

    spec: PersistentVolumeClaimSpec | None = None
    status: PersistentVolumeClaimStatus | None = None


class PersistentVolumeClaimList(ObjectList[PersistentVolumeClaim]):
    gvk = GroupVersionKind("", "v1", "PersistentVolumeClaimList")


class PersistentVolumeClaimVolumeSource(Struct):
    claim_name: str | None = None
    read_only: bool | None = None


class PersistentVolumeList(ObjectList[PersistentVolume]):
    gvk = GroupVersionKind("", "v1", "PersistentVolumeList")


class PodDNSConfigOption(Struct):
    name: str | None = None
    value: str | None = None


class PodDNSConfig(Struct):
    nameservers: list[str] | None = None
    options: list[PodDNSConfigOption] | None = None
    searches: list[str] | None = None


class PodOS(Struct):
    name: str | None = None


class PodReadinessGate(Struct):
    condition_type: str | None = None


class PodResourceClaim(Struct):
    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Struct):
    name: str | None = None


class PodSchedulingGroup(Struct):
    pod_group_name: str | None = None


class Sysctl(Struct):
    name: str | None = None
    value: str | None = None


class PodSecurityContext(Struct):
    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: str | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: list[int] | None = None
    supplemental_groups_policy: str | None = None
    sysctls: list[Sysctl] | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class Toleration(Struct):
    effect: str | None = None
    key: str | None = None
    operator: str | None = None
    toleration_seconds: int | None = None
    value: str | None = None


class TopologySpreadConstraint(Struct):
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    max_skew: int | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None


class PodCertificateProjection(Struct):
    certificate_chain_path: str | None = None
    credential_bundle_path: str | None = None
    key_path: str | None = None
    key_type: str | None = None
    max_expiration_seconds: int | None = None
    signer_name: str | None = None
    user: int | None = None
    user_annotations: dict[str, str] | None = None


class SecretProjection(Struct):
    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None


class ServiceAccountTokenProjection(Struct):
    audience: str | None = None
    expiration_seconds: int | None = None
    path: str | None = None
    user: int | None = None


class VolumeProjection(Struct):
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = field(default=None, name="downwardAPI")
    pod_certificate: PodCertificateProjection | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
    sources: list[VolumeProjection] | None = None


class RBDVolumeSource(Struct):
    fs_type: str | None = None
    image: str | None = None
    keyring: str | None = None
    monitors: list[str] | None = None
    pool: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    user: str | None = None


class ScaleIOVolumeSource(Struct):
    fs_type: str | None = None
    gateway: str | None = None
    protection_domain: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    ssl_enabled: bool | None = None
    storage_mode: str | None = None
    storage_pool: str | None = None
    system: str | None = None
    volume_name: str | None = None


class SecretVolumeSource(Struct):
    default_mode: int | None = None
    default_user: int | None = None
    items: list[KeyToPath] | None = None
    optional: bool | None = None
    secret_name: str | None = None


class StorageOSVolumeSource(Struct):
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    volume_name: str | None = None
    volume_namespace: str | None = None


class Volume(Struct):
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    name: str | None = None
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = field(default=None, name="scaleIO")
    secret: SecretVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PodSpec(Struct):
    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: list[Container] | None = None
    dns_config: PodDNSConfig | None = None
    dns_policy: str | None = None
    enable_service_links: bool | None = None
    ephemeral_containers: list[EphemeralContainer] | None = None
    eviction_responders: list[EvictionResponder] | None = None
    host_aliases: list[HostAlias] | None = None
    host_ipc: bool | None = field(default=None, name="hostIPC")
    host_network: bool | None = None
    host_pid: bool | None = field(default=None, name="hostPID")
    host_users: bool | None = None
    hostname: str | None = None
    hostname_override: str | None = None
    image_pull_secrets: list[LocalObjectReference] | None = None
    init_containers: list[Container] | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    os: PodOS | None = None
    overhead: dict[str, Quantity] | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    readiness_gates: list[PodReadinessGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    runtime_class_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    security_context: PodSecurityContext | None = None
    service_account: str | None = None
    service_account_name: str | None = None
    set_hostname_as_fqdn: bool | None = field(default=None, name="setHostnameAsFQDN")
    share_process_namespace: bool | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None


class PodCondition(Struct):
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class PodExtendedResourceClaimStatus(Struct):
    request_mappings: list[ContainerExtendedResourceRequest] | None = None
    resource_claim_name: str | None = None


class PodIP(Struct):
    ip: str | None = None


class PodResourceClaimStatus(Struct):
    name: str | None = None
    resource_claim_name: str | None = None


class PodVolumeHealth(Struct):
    health_conditions: list[VolumeHealthCondition] | None = None
    last_transition_time: Time | None = None
    name: str | None = None


class PodStatus(Struct):
    allocated_resources: dict[str, Quantity] | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    host_ips: list[HostIP] | None = field(default=None, name="hostIPs")
    init_container_statuses: list[ContainerStatus] | None = None
    message: str | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] | None = None
    nominated_node_name: str | None = None
    observed_generation: int | None = None
    phase: str | None = None
    pod_ip: str | None = field(default=None, name="podIP")
    pod_ips: list[PodIP] | None = field(default=None, name="podIPs")
    qos_class: str | None = None
    reason: str | None = None
    resize: str | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    resources: ResourceRequirements | None = None
    start_time: Time | None = None
    volume_health: list[PodVolumeHealth] | None = None


class Pod(MetaObject):
    gvk = GroupVersionKind("", "v1", "Pod")

    spec: PodSpec | None = None
    status: PodStatus | None = None


class PodList(ObjectList[Pod]):
    gvk = GroupVersionKind("", "v1", "PodList")


class PodTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class PodTemplate(MetaObject):
    gvk = GroupVersionKind("", "v1", "PodTemplate")

    template: PodTemplateSpec | None = None


class PodTemplateList(ObjectList[PodTemplate]):
    gvk = GroupVersionKind("", "v1", "PodTemplateList")


class ReplicationControllerSpec(Struct):
    min_ready_seconds: int | None = None
    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationControllerCondition(Struct):
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class ReplicationControllerStatus(Struct):
    available_replicas: int | None = None
    conditions: list[ReplicationControllerCondition] | None = None
    fully_labeled_replicas: int | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None


class ReplicationController(MetaObject):
    gvk = GroupVersionKind("", "v1", "ReplicationController")

    spec: ReplicationControllerSpec | None = None
    status: ReplicationControllerStatus | None = None


class ReplicationControllerList(ObjectList[ReplicationController]):
    gvk = GroupVersionKind("", "v1", "ReplicationControllerList")


class ScopedResourceSelectorRequirement(Struct):
    operator: str | None = None
    scope_name: str | None = None
    values: list[str] | None = None


class ScopeSelector(Struct):
    match_expressions: list[ScopedResourceSelectorRequirement] | None = None


class ResourceQuotaSpec(Struct):
    hard: dict[str, Quantity] | None = None
    scope_selector: ScopeSelector | None = None
    scopes: list[str] | None = None


class ResourceQuotaStatus(Struct):
    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None


class ResourceQuota(MetaObject):
    gvk = GroupVersionKind("", "v1", "ResourceQuota")

    spec: ResourceQuotaSpec | None = None
    status: ResourceQuotaStatus | None = None


class ResourceQuotaList(ObjectList[ResourceQuota]):
    gvk = GroupVersionKind("", "v1", "ResourceQuotaList")


class Secret(MetaObject):
    gvk = GroupVersionKind("", "v1", "Secret")

    data: dict[str, bytes] | None = None
    immutable: bool | None = None
    string_data: dict[str, str] | None = None
    type: str | None = None


class SecretList(ObjectList[Secret]):
    gvk = GroupVersionKind("", "v1", "SecretList")


class ServicePort(Struct):
    app_protocol: str | None = None
    name: str | None = None
    node_port: int | None = None
    port: int | None = None
    protocol: str | None = None
    target_port: int | str | None = None


class SessionAffinityConfig(Struct):
    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(Struct):
    allocate_load_balancer_node_ports: bool | None = None
    cluster_ip: str | None = field(default=None, name="clusterIP")
    cluster_ips: list[str] | None = field(default=None, name="clusterIPs")
    external_ips: list[str] | None = field(default=None, name="externalIPs")
    external_name: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    internal_traffic_policy: str | None = None
    ip_families: list[str] | None = None
    ip_family_policy: str | None = None
    load_balancer_class: str | None = None
    load_balancer_ip: str | None = field(default=None, name="loadBalancerIP")
    load_balancer_source_ranges: list[str] | None = None
    ports: list[ServicePort] | None = None
    publish_not_ready_addresses: bool | None = None
    selector: dict[str, str] | None = None
    session_affinity: str | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    traffic_distribution: str | None = None
    type: str | None = None


class ServiceStatus(Struct):
    conditions: list[Condition] | None = None
    load_balancer: LoadBalancerStatus | None = None


class Service(MetaObject):
    gvk = GroupVersionKind("", "v1", "Service")

    spec: ServiceSpec | None = None
    status: ServiceStatus | None = None


class ServiceAccount(MetaObject):
    gvk = GroupVersionKind("", "v1", "ServiceAccount")

    automount_service_account_token: bool | None = None
    image_pull_secrets: list[LocalObjectReference] | None = None
    secrets: list[ObjectReference] | None = None


class ServiceAccountList(ObjectList[ServiceAccount]):
    gvk = GroupVersionKind("", "v1", "ServiceAccountList")


class ServiceList(ObjectList[Service]):
    gvk = GroupVersionKind("", "v1", "ServiceList")


class TopologySelectorLabelRequirement(Struct):
    key: str | None = None
    values: list[str] | None = None


class TopologySelectorTerm(Struct):
    match_label_expressions: list[TopologySelectorLabelRequirement] | None = None


__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "Affinity",
    "AppArmorProfile",
    "AttachedVolume",
    "AzureDiskVolumeSource",
    "AzureFilePersistentVolumeSource",
    "AzureFileVolumeSource",
    "Binding",
    "CSIPersistentVolumeSource",
    "CSIVolumeSource",
    "Capabilities",
    "CephFSPersistentVolumeSource",
    "CephFSVolumeSource",
    "CinderPersistentVolumeSource",
    "CinderVolumeSource",
    "ClientIPConfig",
    "ClusterTrustBundleProjection",
    "ComponentCondition",
    "ComponentStatus",
    "ComponentStatusList",
    "ConfigMap",
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapList",
    "ConfigMapNodeConfigSource",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerImage",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "ContainerUser",
    "DaemonEndpoint",
    "DownwardAPIProjection",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "EndpointAddress",
    "EndpointPort",
    "EndpointSubset",
    "Endpoints",
    "EndpointsList",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "EphemeralContainer",
    "EphemeralVolumeSource",
    "Event",
    "EventList",
    "EventSeries",
    "EventSource",
    "EvictionResponder",
    "ExecAction",
    "FCVolumeSource",
    "FileKeySelector",
    "FlexPersistentVolumeSource",
    "FlexVolumeSource",
    "FlockerVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "GRPCAction",
    "GitRepoVolumeSource",
    "GlusterfsPersistentVolumeSource",
    "GlusterfsVolumeSource",
    "HTTPGetAction",
    "HTTPHeader",
    "HostAlias",
    "HostIP",
    "HostPathVolumeSource",
    "ISCSIPersistentVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "ImageVolumeStatus",
    "KeyToPath",
    "Lifecycle",
    "LifecycleHandler",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeList",
    "LimitRangeSpec",
    "LinuxContainerUser",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "LocalObjectReference",
    "LocalVolumeSource",
    "ModifyVolumeStatus",
    "NFSVolumeSource",
    "Namespace",
    "NamespaceCondition",
    "NamespaceList",
    "NamespaceSpec",
    "NamespaceStatus",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeAllocatableMappedResources",
    "NodeAllocatableOverheadResources",
    "NodeAllocatableResourceClaimStatus",
    "NodeCondition",
    "NodeConfigSource",
    "NodeConfigStatus",
    "NodeDaemonEndpoints",
    "NodeFeatures",
    "NodeList",
    "NodePodPreemptionPolicy",
    "NodeRuntimeHandler",
    "NodeRuntimeHandlerFeatures",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NodeSwapStatus",
    "NodeSystemInfo",
    "ObjectFieldSelector",
    "ObjectReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimCondition",
    "PersistentVolumeClaimList",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolumeSource",
    "PersistentVolumeList",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "PhotonPersistentDiskVolumeSource",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodCertificateProjection",
    "PodCondition",
    "PodDNSConfig",
    "PodDNSConfigOption",
    "PodExtendedResourceClaimStatus",
    "PodIP",
    "PodList",
    "PodOS",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSecurityContext",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateList",
    "PodTemplateSpec",
    "PodVolumeHealth",
    "PortStatus",
    "PortworxVolumeSource",
    "PreferredSchedulingTerm",
    "Probe",
    "ProjectedVolumeSource",
    "QuobyteVolumeSource",
    "RBDPersistentVolumeSource",
    "RBDVolumeSource",
    "ReplicationController",
    "ReplicationControllerCondition",
    "ReplicationControllerList",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceClaim",
    "ResourceFieldSelector",
    "ResourceHealth",
    "ResourceQuota",
    "ResourceQuotaList",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "ResourceStatus",
    "SELinuxOptions",
    "ScaleIOPersistentVolumeSource",
    "ScaleIOVolumeSource",
    "ScopeSelector",
    "ScopedResourceSelectorRequirement",
    "SeccompProfile",
    "Secret",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretList",
    "SecretProjection",
    "SecretReference",
    "SecretVolumeSource",
    "SecurityContext",
    "Service",
    "ServiceAccount",
    "ServiceAccountList",
    "ServiceAccountTokenProjection",
    "ServiceList",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "SessionAffinityConfig",
    "SleepAction",
    "StorageOSPersistentVolumeSource",
    "StorageOSVolumeSource",
    "Sysctl",
    "TCPSocketAction",
    "Taint",
    "Toleration",
    "TopologySelectorLabelRequirement",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "TypedLocalObjectReference",
    "TypedObjectReference",
    "Volume",
    "VolumeDevice",
    "VolumeHealthCondition",
    "VolumeHealthStatus",
    "VolumeMount",
    "VolumeMountStatus",
    "VolumeNodeAffinity",
    "VolumeProjection",
    "VolumeResourceRequirements",
    "VolumeStatus",
    "VsphereVirtualDiskVolumeSource",
    "WeightedPodAffinityTerm",
    "WindowsSecurityContextOptions",
]
