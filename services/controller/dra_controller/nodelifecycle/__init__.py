"""Detects nodes that stopped reporting, and taints them.

Mirrors pkg/controller/nodelifecycle.
"""

from dra_controller.nodelifecycle.controller import NodeLifecycleController

__all__ = ["NodeLifecycleController"]
