"""Drivers as data: a YAML file describes a node's devices, their configuration, and the edits of containers."""

from dra_node_agent.drivers.profile.model import Profile, known_profiles, load_profile

__all__ = ["Profile", "known_profiles", "load_profile"]
