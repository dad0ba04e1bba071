"""The controllers that there are, by name."""

from dra_controller.deployment import DeploymentController
from dra_controller.framework import Controller
from dra_controller.garbagecollector import GarbageCollector
from dra_controller.replicaset import ReplicaSetController
from dra_controller.resourceclaim import ResourceClaimController

CONTROLLERS: dict[str, type[Controller]] = {
    controller.name: controller
    for controller in (
        DeploymentController,
        GarbageCollector,
        ReplicaSetController,
        ResourceClaimController,
    )
}
