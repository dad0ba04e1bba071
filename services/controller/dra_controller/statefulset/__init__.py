"""Runs the numbered pods of a StatefulSet, each with its own name and volumes.

Mirrors pkg/controller/statefulset.
"""

from dra_controller.statefulset.controller import StatefulSetController

__all__ = ["StatefulSetController"]
