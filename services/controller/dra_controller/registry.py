"""The controllers that there are, by name."""

from dra_controller.framework import Controller
from dra_controller.garbagecollector import GarbageCollector
from dra_controller.resourceclaim import ResourceClaimController

CONTROLLERS: dict[str, type[Controller]] = {
    controller.name: controller
    for controller in (
        GarbageCollector,
        ResourceClaimController,
    )
}
