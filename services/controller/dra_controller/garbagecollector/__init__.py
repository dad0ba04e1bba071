"""Deletes what has lost its owners, and lets owners go when their dependents are."""

from dra_controller.garbagecollector.collector import GarbageCollector

__all__ = ["GarbageCollector"]
