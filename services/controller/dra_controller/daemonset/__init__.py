"""Runs a DaemonSet's pod on every node that it is meant for."""

from dra_controller.daemonset.controller import DaemonSetController

__all__ = ["DaemonSetController"]
