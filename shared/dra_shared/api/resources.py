"""The resources that services list, watch and write: the API path of each, and the type of its objects."""

import functools
from dataclasses import dataclass
from typing import Generic, TypeVar

from dra_shared.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from dra_shared.api.batch import CronJob, Job
from dra_shared.api.coordination import Lease
from dra_shared.api.core import (
    ConfigMap,
    Event,
    LimitRange,
    Namespace,
    PersistentVolumeClaim,
    ReplicationController,
    ResourceQuota,
    Secret,
    Service,
    ServiceAccount,
)
from dra_shared.api.events import Event as SeriesEvent
from dra_shared.api.meta import Object, Unread
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.api.poolstatus import ResourcePoolStatusRequest
from dra_shared.api.priorityclass import PriorityClass
from dra_shared.api.rbac import ClusterRole
from dra_shared.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dra_shared.api.runtimeclass import RuntimeClass
from dra_shared.api.scheduling import CompositePodGroup, PodGroup, Workload
from dra_shared.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
)
from dra_shared.api.taintrule import DeviceTaintRule

T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A resource of the API: ``plural`` of ``group``/``version``, with objects of ``type``."""

    group: str
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``v1`` for the core group, ``group/version`` for other groups."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """The name in messages: ``pods``, ``resourceclaims.resource.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @functools.cached_property
    def skip_decoding(self) -> "Resource[Unread]":
        """Return the same resource for a write whose response is not decoded."""
        return Resource(self.group, self.version, self.plural, self.kind, Unread, self.namespaced)

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the URL path of the collection, an object or its subresource.

        Without a namespace, the collection of a namespaced resource spans all namespaces.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name is not None:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", Namespace, namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", Pod)
EVENTS = Resource("", "v1", "events", "Event", Event)
SERIES_EVENTS = Resource("events.k8s.io", "v1", "events", "Event", SeriesEvent)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", ServiceAccount)
SERVICES = Resource("", "v1", "services", "Service", Service)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)
SECRETS = Resource("", "v1", "secrets", "Secret", Secret)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", ResourceQuota)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", LimitRange)
RUNTIME_CLASSES = Resource(
    "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", RuntimeClass, namespaced=False
)
PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim
)
PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", StorageClass, namespaced=False
)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", CSINode, namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", CSIDriver, namespaced=False)
CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", CSIStorageCapacity
)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", VolumeAttachment, namespaced=False
)
REPLICATION_CONTROLLERS = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", ReplicationController
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", Deployment)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", ReplicaSet)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", StatefulSet)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", DaemonSet)
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", ControllerRevision)
JOBS = Resource("batch", "v1", "jobs", "Job", Job)
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob", CronJob)
POD_DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget
)
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", ClusterRole, namespaced=False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)
DEVICE_CLASSES = Resource(
    "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False
)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", ResourceClaim)
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", ResourceClaimTemplate
)
RESOURCE_SLICES = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", ResourceSlice, namespaced=False
)
DEVICE_TAINT_RULES = Resource(
    "resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", DeviceTaintRule, namespaced=False
)
RESOURCE_POOL_STATUS_REQUESTS = Resource(
    "resource.k8s.io",
    "v1alpha3",
    "resourcepoolstatusrequests",
    "ResourcePoolStatusRequest",
    ResourcePoolStatusRequest,
    namespaced=False,
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", PriorityClass, namespaced=False
)
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", PodGroup)
COMPOSITE_POD_GROUPS = Resource(
    "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", CompositePodGroup
)
WORKLOADS = Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload", Workload)
