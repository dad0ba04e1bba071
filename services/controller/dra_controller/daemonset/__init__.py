"""Runs a DaemonSet's pod on each node that it selects.

Mirrors pkg/controller/daemon.
"""

from dra_controller.daemonset.controller import DaemonSetController

__all__ = ["DaemonSetController"]
