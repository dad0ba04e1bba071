"""Notices nodes that stopped reporting, and keeps pods away from them."""

from dra_controller.nodelifecycle.controller import NodeLifecycleController

__all__ = ["NodeLifecycleController"]
