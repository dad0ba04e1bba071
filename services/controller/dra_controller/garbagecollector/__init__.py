"""Deletes objects whose owners are gone, and owners once their dependents are gone.

Mirrors pkg/controller/garbagecollector.
"""

from dra_controller.garbagecollector.collector import GarbageCollector

__all__ = ["GarbageCollector"]
