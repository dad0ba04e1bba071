"""The feature gates of Kubernetes 1.36: each with its stage, its default, whether that is locked, and what it needs.

As ``pkg/features/kube_features.go`` and the gates of apiserver, apiextensions-apiserver, client-go, component-base and
controller-manager have them.
"""

from typing import NamedTuple


class Gate(NamedTuple):
    """One gate; ``needs`` are the gates that must be on while it is."""

    stage: str
    default: bool
    locked: bool
    needs: tuple[str, ...]


_TABLE = """
APIResponseCompression Beta on
APIServerIdentity Beta on
APIServerTracing GA on locked
APIServingWithRoutine Alpha off
AggregatedDiscoveryRemoveBetaType Deprecated on locked
AllowDNSOnlyNodeCSR Deprecated off
AllowInsecureKubeletCertificateSigningRequests Deprecated off
AllowOverwriteTerminationGracePeriodSeconds Deprecated off locked
AllowParsingUserUIDFromCertAuth Beta on
AllowServiceExternalIPs GA on
AllowUnsafeMalformedObjectDeletion Alpha off
AnonymousAuthConfigurableEndpoints GA on locked
AnyVolumeDataSource GA on locked
AtomicFIFO Beta on
AuthorizeNodeWithSelectors GA on locked < AuthorizeWithSelectors
AuthorizePodWebsocketUpgradeCreatePermission Beta on
AuthorizeWithSelectors GA on locked
BtreeWatchCache GA on locked
CBORServingAndStorage Alpha off
CPUManagerPolicyAlphaOptions Alpha off
CPUManagerPolicyBetaOptions Beta on
CPUManagerPolicyOptions GA on locked
CRDObservedGenerationTracking Beta on
CRDValidationRatcheting GA on locked
CRIListStreaming Alpha off
CSIServiceAccountTokenSecrets GA on locked
CSIVolumeHealth Alpha off
ChangeContainerStatusOnKubeletRestart Deprecated off
ClearingNominatedNodeNameAfterBinding Beta on
ClientsAllowCARotation Beta on
ClientsAllowCBOR Alpha off
ClientsAllowTLSCacheGC Beta on
ClientsPreferCBOR Alpha off
CloudControllerManagerWatchBasedRoutesReconciliation Alpha off
CloudControllerManagerWebhook Alpha off
ClusterTrustBundle Beta off
ClusterTrustBundleProjection Beta off < ClusterTrustBundle
ComponentFlagz Beta on
ComponentStatusz Beta on
ConcurrentWatchObjectDecode Beta off
ConsistentListFromCache GA on locked
ConstrainedImpersonation Beta on
ContainerCheckpoint Beta on
ContainerRestartRules Beta on
ContainerStopSignals Alpha off
ContextualLogging Beta on
ControllerManagerReleaseLeaderElectionLockOnExit Alpha off
CoordinatedLeaderElection Beta off
CrossNamespaceVolumeDataSource Alpha off
CustomCPUCFSQuotaPeriod GA on
CustomResourceFieldSelectors GA on locked
DRAAdminAccess GA on locked < DynamicResourceAllocation
DRAConsumableCapacity Beta on < DynamicResourceAllocation
DRADeviceBindingConditions Beta on < DynamicResourceAllocation DRAResourceClaimDeviceStatus
DRADeviceTaintRules Beta off < DRADeviceTaints
DRADeviceTaints Beta on < DynamicResourceAllocation
DRAExtendedResource Beta on < DynamicResourceAllocation
DRAListTypeAttributes Alpha off < DynamicResourceAllocation
DRANodeAllocatableResources Alpha off < DynamicResourceAllocation
DRAPartitionableDevices Beta on < DynamicResourceAllocation
DRAPrioritizedList GA on < DynamicResourceAllocation
DRAResourceClaimDeviceStatus Beta on
DRAResourceClaimGranularStatusAuthorization Beta on < DynamicResourceAllocation DRAResourceClaimDeviceStatus
DRAResourcePoolStatus Alpha off < DynamicResourceAllocation
DRASchedulerFilterTimeout Beta on < DynamicResourceAllocation
DRAWorkloadResourceClaims Alpha off < DynamicResourceAllocation GenericWorkload
DeclarativeValidation GA on locked
DeclarativeValidationBeta Beta on < DeclarativeValidation
DeclarativeValidationTakeover Deprecated off < DeclarativeValidation
DeploymentReplicaSetTerminatingReplicas Beta on
DetectCacheInconsistency Beta on
DisableAllocatorDualWrite GA on locked < MultiCIDRServiceAllocator
DisableCPUQuotaWithExclusiveCPUs Deprecated on
DisableNodeKubeProxyVersion Deprecated on locked
DynamicResourceAllocation GA on locked
EnvFiles Beta on
EventedPLEG Alpha off
ExecProbeTimeout GA on locked
ExtendWebSocketsToKubelet Beta on < NodeDeclaredFeatures
ExternalServiceAccountTokenSigner GA on locked
GangScheduling Alpha off < GenericWorkload
GenericWorkload Alpha off
GitRepoVolumeDriver Deprecated off locked
GracefulNodeShutdown Beta on
GracefulNodeShutdownBasedOnPodPriority Beta on < GracefulNodeShutdown
HPAConfigurableTolerance Beta on
HPAScaleToZero Alpha off
HostnameOverride Beta on
ImageMaximumGCAge GA on locked
ImageVolume GA on locked
ImageVolumeWithDigest Alpha off < ImageVolume
InOrderInformers GA on locked
InOrderInformersBatchProcess Beta on
InPlacePodLevelResourcesVerticalScaling Beta on < InPlacePodVerticalScaling PodLevelResources NodeDeclaredFeatures
InPlacePodVerticalScaling GA on locked
InPlacePodVerticalScalingExclusiveCPUs Alpha off < InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory Alpha off < InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers Beta on < InPlacePodVerticalScaling NodeDeclaredFeatures
InformerResourceVersion GA on
JobBackoffLimitPerIndex GA on locked
JobManagedBy GA on locked
JobPodReplacementPolicy GA on locked
JobSuccessPolicy GA on locked
KMSv1 Deprecated off
KubeletCgroupDriverFromCRI GA on locked
KubeletCrashLoopBackOffMax Beta on
KubeletEnsureSecretPulledImages Beta on
KubeletFineGrainedAuthz GA on locked
KubeletInUserNamespace Alpha off
KubeletPSI GA on locked
KubeletPodResourcesDynamicResources GA on locked
KubeletPodResourcesGet GA on locked
KubeletPodResourcesListUseActivePods Deprecated on
KubeletRegistrationGetOnExistsOnly Deprecated off
KubeletSeparateDiskGC Beta on
KubeletServiceAccountTokenForCredentialProviders Beta on
KubeletTracing GA on locked
ListFromCacheSnapshot Beta on
LocalStorageCapacityIsolationFSQuotaMonitoring Beta off
LogarithmicScaleDown GA on locked
LoggingAlphaOptions Alpha off
LoggingBetaOptions Beta on
ManifestBasedAdmissionControlConfig Alpha off
MatchLabelKeysInPodAffinity GA on locked
MatchLabelKeysInPodTopologySpread Beta on
MatchLabelKeysInPodTopologySpreadSelectorMerge Beta on < MatchLabelKeysInPodTopologySpread
MaxUnavailableStatefulSet Beta off
MemoryQoS Alpha off
MultiCIDRServiceAllocator GA on locked
MutableCSINodeAllocatableCount GA on locked
MutablePVNodeAffinity Alpha off
MutablePodResourcesForSuspendedJobs Beta on
MutableSchedulingDirectivesForSuspendedJobs Beta on
MutatingAdmissionPolicy GA on
NFTablesProxyMode GA on locked
NativeHistograms Alpha off
NodeDeclaredFeatures Beta on
NodeInclusionPolicyInPodTopologySpread GA on locked
NodeLogQuery GA on locked
NodeSwap GA on locked
NominatedNodeNameForExpectation Beta on
OpenAPIEnums Beta on
OpportunisticBatching Beta on
OrderedNamespaceDeletion GA on locked
PLEGOnDemandRelist Beta on
PersistentVolumeClaimUnusedSinceTime Alpha off
PodAndContainerStatsFromCRI Alpha off
PodCertificateRequest Beta off < AuthorizeNodeWithSelectors
PodDeletionCost Beta on
PodLevelResourceManagers Alpha off < PodLevelResources
PodLevelResources Beta on
PodLifecycleSleepAction GA on locked
PodLifecycleSleepActionAllowZero GA on locked < PodLifecycleSleepAction
PodLogsQuerySplitStreams Alpha off
PodObservedGenerationTracking GA on locked
PodReadyToStartContainersCondition Beta on
PodSchedulingReadiness GA on locked
PodTopologyLabelsAdmission Beta on
PodsAPI Alpha off
PortForwardWebsockets Beta on
PreferSameTrafficDistribution GA on locked
PreventStaticPodAPIReferences Beta on
ProcMountType GA on locked < UserNamespacesSupport
QOSReserved Alpha off
RecoverVolumeExpansionFailure GA on locked
RecursiveReadOnlyMounts GA on locked
ReduceDefaultCrashLoopBackOffDecay Alpha off
RelaxedDNSSearchValidation GA on locked
RelaxedEnvironmentVariableValidation GA on locked
RelaxedServiceNameValidation Beta on
ReloadKubeletClientCAFile Beta on
ReloadKubeletServerCertificateFile Beta on
RemoteRequestHeaderUID Beta on
ResilientWatchCacheInitialization GA on locked
ResourceHealthStatus Beta on < DynamicResourceAllocation
ResourceHealthStatusMessage Beta on < ResourceHealthStatus
RestartAllContainersOnContainerExits Beta on < ContainerRestartRules NodeDeclaredFeatures
RetryGenerateName GA on locked
RotateKubeletServerCertificate Beta on
RuntimeClassInImageCriApi Alpha off
SELinuxChangePolicy GA on locked
SELinuxMount Beta off
SELinuxMountReadWriteOncePod GA on locked
SchedulerAsyncAPICalls Beta off
SchedulerAsyncPreemption Beta on
SchedulerPopFromBackoffQ Beta on
SchedulerQueueingHints GA on locked
SeparateCacheWatchRPC Deprecated off locked
SeparateTaintEvictionController GA on locked
ServiceAccountNodeAudienceRestriction Beta on
ServiceAccountTokenJTI GA on locked
ServiceAccountTokenNodeBinding GA on locked < ServiceAccountTokenNodeBindingValidation
ServiceAccountTokenNodeBindingValidation GA on locked
ServiceAccountTokenPodNodeInfo GA on locked
ServiceCIDRStatusFieldWiping Deprecated on
ShardedListAndWatch Alpha off
SidecarContainers GA on locked
SizeBasedListCostEstimate Beta on
StaleControllerConsistencyDaemonSet Beta on < AtomicFIFO
StaleControllerConsistencyJob Beta on < AtomicFIFO
StaleControllerConsistencyReplicaSet Beta on < AtomicFIFO
StaleControllerConsistencyStatefulSet Beta on < AtomicFIFO
StatefulSetSemanticRevisionComparison Beta on
StorageCapacityScoring Alpha off
StorageNamespaceIndex Deprecated on
StorageVersionAPI Alpha off < APIServerIdentity
StorageVersionHash Beta on
StorageVersionMigrator Beta off
StreamingCollectionEncodingToJSON GA on locked
StreamingCollectionEncodingToProtobuf GA on locked
StrictIPCIDRValidation Beta on
StructuredAuthenticationConfiguration GA on locked
StructuredAuthenticationConfigurationEgressSelector Beta on < StructuredAuthenticationConfiguration
StructuredAuthenticationConfigurationJWKSMetrics Beta on < StructuredAuthenticationConfiguration
SupplementalGroupsPolicy GA on locked
SystemdWatchdog GA on locked
TaintTolerationComparisonOperators Alpha off
TokenRequestServiceAccountUIDValidation Beta on
TopologyAwareWorkloadScheduling Alpha off < GenericWorkload
TopologyManagerPolicyAlphaOptions Alpha off
TopologyManagerPolicyBetaOptions Beta on
TopologyManagerPolicyOptions GA on locked
TranslateStreamCloseWebsocketRequests Beta on
UnauthenticatedHTTP2DOSMitigation Beta on
UnknownVersionInteroperabilityProxy Beta on < APIServerIdentity
UnlockWhileProcessingFIFO Beta on
UserNamespacesHostNetworkSupport Alpha off < UserNamespacesSupport NodeDeclaredFeatures
UserNamespacesSupport GA on locked
VolumeAttributesClass GA on locked
VolumeLimitScaling Alpha off
WatchCacheInitializationPostStartHook Beta on
WatchList Beta on
WatchListClient Beta on
WinDSR GA on locked
WinOverlay GA on locked
WindowsCPUAndMemoryAffinity Alpha off
WindowsGracefulNodeShutdown Beta on < GracefulNodeShutdown
WindowsHostNetwork Deprecated off
WorkloadAwarePreemption Alpha off < GangScheduling
WorkloadWithJob Alpha off < GenericWorkload
"""


def _gates() -> dict[str, Gate]:
    found = {}
    for line in _TABLE.strip().splitlines():
        words, _, needs = line.partition(" < ")
        name, stage, default, *locked = words.split()
        found[name] = Gate(stage, default == "on", bool(locked), tuple(needs.split()))
    return found


GATES = _gates()
