"""The controllers by name.

Mirrors cmd/kube-controller-manager/app/controller_descriptor.go.
"""

from dra_controller.classicdra import ClassicDRAController
from dra_controller.clusterroleaggregation import ClusterRoleAggregationController
from dra_controller.cronjob import CronJobController
from dra_controller.daemonset import DaemonSetController
from dra_controller.deployment import DeploymentController
from dra_controller.devicetainteviction import DeviceTaintEvictionController
from dra_controller.disruption import DisruptionController
from dra_controller.framework import Controller
from dra_controller.garbagecollector import GarbageCollector
from dra_controller.job import JobController
from dra_controller.jobkinds.jobset import JobSetController
from dra_controller.jobkinds.leaderworkerset import LeaderWorkerSetController
from dra_controller.jobkinds.mpi import MPIJobController
from dra_controller.jobkinds.ray import RayClusterController, RayJobController
from dra_controller.jobkinds.trainer import TrainJobController
from dra_controller.namespace import NamespaceController
from dra_controller.nodelifecycle import NodeLifecycleController
from dra_controller.podgc import PodGarbageCollector
from dra_controller.podgroupprotection import PodGroupProtectionController
from dra_controller.replicaset import ReplicaSetController
from dra_controller.replicationcontroller import ReplicationManager
from dra_controller.resourceclaim import ResourceClaimController
from dra_controller.resourcepoolstatusrequest import ResourcePoolStatusRequestController
from dra_controller.resourcequota import ResourceQuotaController
from dra_controller.rootcacertpublisher import RootCACertificatePublisher
from dra_controller.serviceaccount import ServiceAccountController
from dra_controller.statefulset import StatefulSetController
from dra_controller.tainteviction import TaintEvictionController
from dra_controller.ttl import TTLController
from dra_controller.ttlafterfinished import TTLAfterFinishedController

_CLASSES: tuple[type[Controller], ...] = (
    ClassicDRAController,
    ClusterRoleAggregationController,
    CronJobController,
    DaemonSetController,
    DeploymentController,
    DeviceTaintEvictionController,
    DisruptionController,
    GarbageCollector,
    JobController,
    JobSetController,
    LeaderWorkerSetController,
    MPIJobController,
    RayClusterController,
    RayJobController,
    TrainJobController,
    NamespaceController,
    NodeLifecycleController,
    PodGarbageCollector,
    PodGroupProtectionController,
    ReplicaSetController,
    ReplicationManager,
    ResourceClaimController,
    ResourcePoolStatusRequestController,
    ResourceQuotaController,
    RootCACertificatePublisher,
    ServiceAccountController,
    StatefulSetController,
    TTLAfterFinishedController,
    TTLController,
    TaintEvictionController,
)

CONTROLLERS: dict[str, type[Controller]] = {controller.name: controller for controller in _CLASSES}
