"""The table of private fields.

A text is renamed unless its field is listed here, so a field that is added to the API later is private as well. The
entries of a map whose keys are not listed are left out.
"""

import enum
import re
from collections.abc import Mapping

from dra_shared.classic.extended import CLASSES
from dra_shared.version import VERSIONS, release


class Rule(enum.Enum):
    """The way to anonymize the strings of a field. Strings of fields without a rule are renamed."""

    KEEP = enum.auto()
    """Not renamed: names of drivers, and words that drivers define."""
    DROP = enum.auto()
    """Left out, because no scheduling decision depends on the text."""
    WORD = enum.auto()
    """A word of the API; any other text is renamed."""
    LISTED_WORD = enum.auto()
    """A word of the API; any other text is left out."""
    AMOUNT = enum.auto()
    """A quantity or percentage; any other text is renamed."""
    TIME = enum.auto()
    """A timestamp."""
    VERSION = enum.auto()
    """A semantic version. Its prerelease and build texts are removed."""
    UID = enum.auto()
    LABEL_KEY = enum.auto()
    RESOURCE = enum.auto()
    """The name of a resource, such as cpu or nvidia.com/gpu."""
    IMAGE = enum.auto()
    ADDRESS = enum.auto()
    ATTRIBUTE = enum.auto()
    """The name of an attribute. Names of attributes that a claim derives are renamed."""
    EXPRESSION = enum.auto()
    GROUP = enum.auto()
    """An API group, with or without a version."""
    KIND = enum.auto()
    PREFIX = enum.auto()
    """The start of a generated name, as in generateName."""


# Fields that are left out, because nothing depends on them: "Struct.field" or "field".
_DROPPED = """
    addresses allocatedResourcesStatus args automountServiceAccountToken bootID command configSource containerID
    containerStatuses data daemonEndpoints description devicePath dnsConfig dnsPolicy env envFrom
    ephemeralContainerStatuses externalID features fieldPath hostAliases hostIP hostIPs hostIPC hostPID hostUsers
    hostname hostnameOverride imageID imagePullSecrets initContainerStatuses kernelVersion kubeProxyVersion
    containerRuntimeVersion lifecycle livenessProbe machineID message networkData osImage podCIDR podCIDRs podIP podIPs
    providerID readinessProbe runtimeHandlers secrets securityContext serviceAccount startupProbe subdomain swap
    systemUUID terminationMessagePath terminationMessagePolicy uncountedTerminatedPods volumeDevices volumeMounts
    volumesAttached volumesInUse workingDir
    NodeStatus.config ServiceSpec.externalIPs ServiceSpec.loadBalancerIP ServiceSpec.loadBalancerSourceRanges
    ServiceSpec.loadBalancerClass ServicePort.appProtocol ServicePort.nodePort ServicePort.targetPort Service.status
    ContainerPort.name JobSpec.podFailurePolicy Container.restartPolicyRules
    PersistentVolumeClaimSpec.dataSource PersistentVolumeClaimSpec.dataSourceRef
    PersistentVolumeClaimStatus.allocatedResourceStatuses PersistentVolumeClaimStatus.modifyVolumeStatus
"""
_WORDS = """
    accessModes allocationMode architecture completionMode concurrencyPolicy effect externalTrafficPolicy health
    imagePullPolicy internalTrafficPolicy ipFamilies ipFamilyPolicy managedBy nodeAffinityPolicy nodeTaintsPolicy
    operatingSystem operator phase podManagementPolicy podReplacementPolicy preemptionPolicy protocol qosClass reason
    resize restartPolicy schedulerName scopeName scopes sessionAffinity source status trafficDistribution type
    unhealthyPodEvictionPolicy volumeBindingMode volumeMode whenDeleted whenScaled whenUnsatisfiable resource
    declaredFeatures skipNodeOperations conditionType bindingConditions bindingFailureConditions PodOS.name
    disruptionMode
"""
_AMOUNTS = """
    allocationMultiplier capacityMultiplier deviceMultiplier default max min step validValues perContainer perPod
    quantity maximumVolumeSize maxSurge maxUnavailable minAvailable completedIndexes failedIndexes succeededIndexes
    resourceVersion Counter.value DeviceCapacity.value CSIStorageCapacity.capacity
"""
_TIMES = """
    allocationTimestamp completionTime creationTimestamp deletionTimestamp finishedAt lastHeartbeatTime lastProbeTime
    lastTransitionTime lastUpdateTime startTime startedAt timeAdded
"""
_KEPT = """
    driver attacher provisioner capacityKey partitionTypeAttribute CSINodeDriver.name CSIDriver.metadata.name
"""


def _each(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: Mapping[str, Rule] = {
    **_each(Rule.DROP, _DROPPED),
    **_each(Rule.WORD, _WORDS),
    **_each(Rule.AMOUNT, _AMOUNTS),
    **_each(Rule.TIME, _TIMES),
    **_each(Rule.KEEP, _KEPT),
    **_each(Rule.LISTED_WORD, "finalizers ServiceSpec.clusterIP ServiceSpec.clusterIPs"),
    **_each(Rule.VERSION, "version versions kubeletVersion"),
    **_each(Rule.UID, "uid shareID"),
    **_each(Rule.LABEL_KEY, "key topologyKey matchLabelKeys mismatchLabelKeys"),
    **_each(Rule.RESOURCE, "extendedResourceName resourceName"),
    **_each(Rule.RESOURCE, "NodeAllocatableMappedResources.name NodeAllocatableOverheadResources.name"),
    **_each(Rule.IMAGE, "image names"),
    **_each(Rule.ADDRESS, "ContainerPort.hostIP"),
    **_each(Rule.ATTRIBUTE, "matchAttribute distinctAttribute DeviceDerivedAttribute.name"),
    **_each(Rule.EXPRESSION, "expression"),
    **_each(Rule.GROUP, "apiVersion apiGroup"),
    **_each(Rule.KIND, "kind"),
    **_each(Rule.PREFIX, "generateName"),
}
"""The rule of a field, by "Struct.field" or, for all structs, by "field"."""

_RESOURCES = """
    allocatable allocatedResources capacity limits requests resources overhead hard used podFixed default
    defaultRequest max min maxLimitRequestRatio nodeAllocatableResourceMappings nodeAllocatableResources
"""
MAP_KEYS: Mapping[str, Rule | None] = {
    **_each(Rule.RESOURCE, _RESOURCES),
    **_each(Rule.LABEL_KEY, "labels matchLabels nodeSelector selector"),
    **_each(Rule.KEEP, "attributes consumedCapacity Device.capacity CapacityRequirements.requests"),
    "counters": None,
    "disruptedPods": None,
}
"""The rule of a map's keys, by "Struct.field" or "field". None: they are renamed."""

AMOUNT_MAPS = frozenset((*_RESOURCES.split(), "consumedCapacity"))
"""Maps whose values are amounts."""

NOUNS: Mapping[str, str] = {
    "claimName": "persistentvolumeclaim",
    "conditionType": "condition",
    "bindingConditions": "condition",
    "bindingFailureConditions": "condition",
    "containerName": "container",
    "containers": "container",
    "counterSet": "counterset",
    "counters": "counter",
    "device": "device",
    "deviceClassName": "deviceclass",
    "disruptedPods": "pod",
    "namespace": "namespace",
    "namespaces": "namespace",
    "nodeName": "node",
    "nominatedNodeName": "node",
    "podGroupName": "podgroup",
    "pool": "node",
    "priorityClassName": "priorityclass",
    "request": "request",
    "requestName": "request",
    "requests": "request",
    "resourceClaimName": "resourceclaim",
    "resourceClaimTemplateName": "resourceclaimtemplate",
    "runtimeClassName": "runtimeclass",
    "schedulerName": "scheduler",
    "externalName": "host",
    "serviceAccountName": "serviceaccount",
    "storageClassName": "storageclass",
    "string": "id",
    "strings": "id",
    "value": "value",
    "values": "value",
    "volumeName": "persistentvolume",
    "Container.name": "container",
    "CounterSet.name": "counterset",
    "ServicePort.name": "port",
    "Device.name": "device",
    "DeviceRequest.name": "request",
    "DeviceSubRequest.name": "request",
    # Pools of a node have its name. The order of all pools must stay the same.
    "ResourcePool.name": "node",
}
"""The prefix of a field's new names, by "Struct.field" or "field"."""

_API_WORDS = """
    NoSchedule PreferNoSchedule NoExecute None Exists Equal In NotIn DoesNotExist Gt Lt Always IfNotPresent Never
    OnFailure PreemptLowerPriority Pending Running Succeeded Failed Unknown Active Terminating Bound Lost Available
    Released True False ExactCount All DoNotSchedule ScheduleAnyway Honor Ignore TCP UDP SCTP ClusterIP NodePort
    LoadBalancer ExternalName Recreate RollingUpdate OnDelete OrderedReady Parallel Retain Delete WaitForFirstConsumer
    Immediate ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Filesystem Block Indexed NonIndexed FromClass
    FromClaim BestEffort Burstable Guaranteed default-scheduler IfHealthyBudget AlwaysAllow Cluster Local IPv4 IPv6
    SingleStack PreferDualStack RequireDualStack ClientIP TerminatingOrFailed Healthy Unhealthy Proposed InProgress
    Deferred Infeasible Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable PodScheduled Initialized
    ContainersReady PodReadyToStartContainers DisruptionTarget Unschedulable SchedulingGated SchedulerError
    PodGroupScheduled PodGroupInitiallyScheduled PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI
    DeletionByPodGC TerminationByKubelet Complete Suspended FailureTarget SuccessCriteriaMet Progressing
    ReplicaFailure DisruptionAllowed SufficientPods InsufficientPods SyncFailed KubeletReady KubeletNotReady Evicted
    NodeStatusUnknown Container Pod PersistentVolumeClaim PriorityClass NotTerminating NotBestEffort
    CrossNamespacePodAffinity VolumeAttributesClass Exact linux windows amd64 arm64 arm ppc64le s390x pods podgroups
    compositepodgroups PodGroup single all * NodePrepareResources NodeUnprepareResources kubernetes.io/job-controller
    kubernetes kubernetes.io/pvc-protection kubernetes.io/pv-protection batch.kubernetes.io/job-tracking
    resource.kubernetes.io/delete-protection resource.kubernetes.io/pod-claim-protection foregroundDeletion orphan
    """
_GATES = {name for version in VERSIONS for name in release(version).gates}
WORDS = frozenset(_API_WORDS.split()) | _GATES
"""Words of the API."""

KEPT_TEXTS = re.compile(
    r"|true|false|\d{1,5}|default|kube-system|kube-public|kube-node-lease|system-(?:node|cluster)-critical"
)
"""Texts that keep their value even where others are renamed."""

ANNOTATIONS: Mapping[str, Rule | None] = {
    "classic.resource.k8s.io/allocation-mode": Rule.WORD,
    "kubernetes.io/config.mirror": None,
    "kubernetes.io/config.source": None,
    "pv.kubernetes.io/bind-completed": None,
    "pv.kubernetes.io/bound-by-controller": None,
    "resource.kubernetes.io/extended-resource-claim": None,
    "resource.kubernetes.io/pod-claim-name": None,
    "storageclass.kubernetes.io/is-default-class": None,
    "volume.beta.kubernetes.io/storage-class": None,
    "volume.kubernetes.io/selected-node": None,
}
"""The annotations that decisions depend on, and the rules of their values. All others are left out."""

_KNOWN_LABELS = """
    apps.kubernetes.io/pod-index batch.kubernetes.io/controller-uid
    batch.kubernetes.io/job-completion-index batch.kubernetes.io/job-name beta.kubernetes.io/arch
    beta.kubernetes.io/instance-type beta.kubernetes.io/os controller-revision-hash controller-uid
    failure-domain.beta.kubernetes.io/region failure-domain.beta.kubernetes.io/zone job-name kubernetes.io/arch
    kubernetes.io/hostname kubernetes.io/metadata.name kubernetes.io/os metadata.name
    node-role.kubernetes.io/control-plane
    node-role.kubernetes.io/master node-role.kubernetes.io/worker
    node.cloudprovider.kubernetes.io/shutdown
    node.cloudprovider.kubernetes.io/uninitialized node.kubernetes.io/disk-pressure
    node.kubernetes.io/exclude-from-external-load-balancers node.kubernetes.io/instance-type
    node.kubernetes.io/memory-pressure node.kubernetes.io/network-unavailable node.kubernetes.io/not-ready
    node.kubernetes.io/out-of-service node.kubernetes.io/pid-pressure node.kubernetes.io/unreachable
    node.kubernetes.io/unschedulable pod-template-generation pod-template-hash
    resource.kubernetes.io/admin-access statefulset.kubernetes.io/pod-name topology.kubernetes.io/region
    topology.kubernetes.io/zone
    """
_LABELS = frozenset(_KNOWN_LABELS.split())
# The labels of GPU feature discovery.
_GPU_LABELS = re.compile(
    r"""nvidia\.com/(?:
    gpu\.(?:clique|count|family|imex-domain|machine|memory|mode|present|product|replicas|sharing-strategy)
    |(?:gpu|mig-\d+g\.\d+gb(?:\.me)?)\.compute\.(?:major|minor)
    |mig\.(?:capable|config|config\.state|strategy)|mig-\d+g\.\d+gb(?:\.me)?\.(?:count|memory|product|replicas)
    |cuda\.(?:driver|runtime)(?:-version)?\.(?:full|major|minor|rev|revision)|mps\.capable|vgpu\.present)""",
    re.VERBOSE,
)
_PRIVATE_GPU_LABELS = re.compile(r"nvidia\.com/(?:gpu\.clique|gpu\.imex-domain|gpu\.machine|mig\.config)")
_VALUES = frozenset(
    {"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/os"}
)


def is_known_label(key: str) -> bool:
    """True for a well-known label, whose key does not identify a user."""
    return key in _LABELS or _GPU_LABELS.fullmatch(key) is not None


def has_known_values(key: str) -> bool:
    """True for a label whose values are public, such as the labels of GPU feature discovery."""
    gpu = _GPU_LABELS.fullmatch(key) is not None and _PRIVATE_GPU_LABELS.fullmatch(key) is None
    return key in _VALUES or gpu


# Attributes that describe the type of a device and do not identify it.
_MODELS = frozenset(("architecture", "brand", "family", "model", "productName", "profile", "type", "vendor"))


def is_model(attribute: str) -> bool:
    """True for an attribute that describes the type of a device. The values of others may identify a single device."""
    return attribute.rpartition("/")[2] in _MODELS


_RESOURCE_NAMES = re.compile(
    r"""cpu|memory|pods|storage|ephemeral-storage|hugepages-\d+[KMGT]i?|attachable-volumes-[a-z-]+
    |services(?:\.loadbalancers|\.nodeports)?|configmaps|secrets|resourcequotas|replicationcontrollers
    |persistentvolumeclaims|count/[a-z]+(?:\.(?:apps|batch|resource\.k8s\.io))?
    |nvidia\.com/(?:gpu(?:\.shared)?|mig-\d+g\.\d+gb(?:\.me)?)""",
    re.VERBOSE,
)


def is_public_resource(name: str) -> bool:
    """True for Kubernetes' own resources and those of well-known device plugins."""
    return _RESOURCE_NAMES.fullmatch(name) is not None or name in CLASSES
