"""Drivers as data: a YAML file says what a node has, what may be configured, and what containers get."""

from dra_node_agent.drivers.profile.model import Profile, known_profiles, load_profile

__all__ = ["Profile", "known_profiles", "load_profile"]
