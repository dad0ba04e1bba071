"""Rolls a Deployment's pods from one ReplicaSet to the next."""

from dra_controller.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
