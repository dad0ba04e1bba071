"""Moves the pods of a Deployment from one ReplicaSet to the next.

Mirrors pkg/controller/deployment.
"""

from dra_controller.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
