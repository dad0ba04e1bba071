"""Runs a StatefulSet's numbered pods, each with its own name and volumes."""

from dra_controller.statefulset.controller import StatefulSetController

__all__ = ["StatefulSetController"]
