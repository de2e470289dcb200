"""Feature gates of kube-apiserver v1.36: those that this server has a feature for, and all others.

For gates without an effect the behaviour is that of the defaults, and another value is named in a warning.
Unknown and locked gates are errors, as in kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kubewright.options.kinds import parse_boolean

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

DEFAULT_GATES: Final[Mapping[str, bool]] = {
    "APIServerIdentity": True,
    "CBORServingAndStorage": False,
    "ComponentFlagz": True,
    "ComponentStatusz": True,
    "WatchList": True,
}
"""Gates with an effect, and their defaults in kube-apiserver 1.36.

`APIServerIdentity`: the identity lease; `CBORServingAndStorage`: requests and responses in CBOR (objects are
stored in JSON in any case); `ComponentFlagz`, `ComponentStatusz`: `/flagz` and `/statusz`; `WatchList`:
watches with `sendInitialEvents`.
"""


def parse_gates(pairs: Iterable[str]) -> dict[str, bool]:
    """Return the `NAME=VALUE` pairs of `--feature-gates` whose value is not the default.

    Raises `ValueError` with the messages of kube-apiserver for unknown and for locked gates.
    """
    gates: dict[str, bool] = {}
    for pair in pairs:
        name, equals, text = pair.rpartition(":")[2].partition("=")
        name, text = name.strip(), text.strip()
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        try:
            value = parse_boolean(text)
        except ValueError:
            raise ValueError(f"invalid value of {name}={text}, expected true or false") from None
        if name not in ENABLED and name not in DISABLED:
            raise ValueError(f"unrecognized feature gate: {name}")
        default = name in ENABLED
        if name in LOCKED and value != default:
            raise ValueError(
                f"cannot set feature gate {name} to {text}, feature is locked to {str(default).lower()}"
            )
        gates[name] = value
    return {name: value for name, value in gates.items() if value != (name in ENABLED)}


def warn_of_gates(gates: Mapping[str, bool] | None) -> list[str]:
    """Return the warning of gates that have no effect, if there are any."""
    names = [
        f"{name}={str(value).lower()}" for name, value in (gates or {}).items() if name not in DEFAULT_GATES
    ]
    return [f"ignored feature gates that have no effect here: {' '.join(names)}"] if names else []


def apply_gates(server: APIServer, gates: Mapping[str, bool]) -> None:
    """Disable the features of a server whose gates are disabled."""
    server.watch_list = gates["WatchList"]
    if not gates["ComponentFlagz"]:
        server.remove_handler("/flagz")
    if not gates["ComponentStatusz"]:
        server.remove_handler("/statusz")


_ENABLED_NAMES = """
APIResponseCompression APIServerIdentity APIServerTracing AggregatedDiscoveryRemoveBetaType
AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs AnonymousAuthConfigurableEndpoints
AnyVolumeDataSource AtomicFIFO AuthorizeNodeWithSelectors AuthorizePodWebsocketUpgradeCreatePermission
AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyBetaOptions CPUManagerPolicyOptions
CRDObservedGenerationTracking CRDValidationRatcheting CSIServiceAccountTokenSecrets
ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
ComponentStatusz ConsistentListFromCache ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules
ContextualLogging CustomCPUCFSQuotaPeriod CustomResourceFieldSelectors DRAAdminAccess DRAConsumableCapacity
DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices DRAPrioritizedList
DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
DeclarativeValidation DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
DetectCacheInconsistency DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs
DisableNodeKubeProxyVersion DynamicResourceAllocation EnvFiles ExecProbeTimeout ExtendWebSocketsToKubelet
ExternalServiceAccountTokenSigner GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
HPAConfigurableTolerance HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers
InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers InformerResourceVersion JobBackoffLimitPerIndex JobManagedBy
JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax
KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
KubeletPodResourcesGet KubeletPodResourcesListUseActivePods KubeletSeparateDiskGC
KubeletServiceAccountTokenForCredentialProviders KubeletTracing ListFromCacheSnapshot LogarithmicScaleDown
LoggingBetaOptions MatchLabelKeysInPodAffinity MatchLabelKeysInPodTopologySpread
MatchLabelKeysInPodTopologySpreadSelectorMerge MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy
NFTablesProxyMode NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching OrderedNamespaceDeletion
PLEGOnDemandRelist PodDeletionCost PodLevelResources PodLifecycleSleepAction
PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodReadyToStartContainersCondition
PodSchedulingReadiness PodTopologyLabelsAdmission PortForwardWebsockets PreferSameTrafficDistribution
PreventStaticPodAPIReferences ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation
ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID
ResilientWatchCacheInitialization ResourceHealthStatus ResourceHealthStatusMessage
RestartAllContainersOnContainerExits RetryGenerateName RotateKubeletServerCertificate SELinuxChangePolicy
SELinuxMountReadWriteOncePod SchedulerAsyncPreemption SchedulerPopFromBackoffQ SchedulerQueueingHints
SeparateTaintEvictionController ServiceAccountNodeAudienceRestriction ServiceAccountTokenJTI
ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
ServiceCIDRStatusFieldWiping SidecarContainers SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
StatefulSetSemanticRevisionComparison StorageNamespaceIndex StorageVersionHash
StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StrictIPCIDRValidation
StructuredAuthenticationConfiguration StructuredAuthenticationConfigurationEgressSelector
StructuredAuthenticationConfigurationJWKSMetrics SupplementalGroupsPolicy SystemdWatchdog
TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions
TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
UnlockWhileProcessingFIFO UserNamespacesSupport VolumeAttributesClass WatchCacheInitializationPostStartHook
WatchList WatchListClient WinDSR WinOverlay WindowsGracefulNodeShutdown
"""

ENABLED = frozenset(_ENABLED_NAMES.split())
"""Gates that are enabled by default."""

_DISABLED_NAMES = """
APIServingWithRoutine AllAlpha AllBeta AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
AllowOverwriteTerminationGracePeriodSeconds AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ChangeContainerStatusOnKubeletRestart
ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
CloudControllerManagerWebhook ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
ContainerStopSignals ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection
CrossNamespaceVolumeDataSource DRADeviceTaintRules DRAListTypeAttributes DRANodeAllocatableResources
DRAResourcePoolStatus DRAWorkloadResourceClaims DeclarativeValidationTakeover EventedPLEG GangScheduling
GenericWorkload GitRepoVolumeDriver HPAScaleToZero ImageVolumeWithDigest
InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory KMSv1 KubeletInUserNamespace
KubeletRegistrationGetOnExistsOnly LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions
ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS MutablePVNodeAffinity
NativeHistograms PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodCertificateRequest
PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
RuntimeClassInImageCriApi SELinuxMount SchedulerAsyncAPICalls SeparateCacheWatchRPC ShardedListAndWatch
StorageCapacityScoring StorageVersionAPI StorageVersionMigrator TaintTolerationComparisonOperators
TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
VolumeLimitScaling WindowsCPUAndMemoryAffinity WindowsHostNetwork WorkloadAwarePreemption WorkloadWithJob
"""

DISABLED = frozenset(_DISABLED_NAMES.split())
"""Gates that are disabled by default."""

_LOCKED_NAMES = """
APIServerTracing AggregatedDiscoveryRemoveBetaType AllowOverwriteTerminationGracePeriodSeconds
AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors AuthorizeWithSelectors
BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets
ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess DeclarativeValidation
DisableAllocatorDualWrite DisableNodeKubeProxyVersion DynamicResourceAllocation ExecProbeTimeout
ExternalServiceAccountTokenSigner GitRepoVolumeDriver ImageMaximumGCAge ImageVolume InOrderInformers
InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy
KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown MatchLabelKeysInPodAffinity
MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction
PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization
RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerQueueingHints
SeparateCacheWatchRPC SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
StructuredAuthenticationConfiguration SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
"""

LOCKED = frozenset(_LOCKED_NAMES.split())
"""Gates whose value cannot be changed."""
