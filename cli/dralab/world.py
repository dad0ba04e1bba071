"""The public names of :mod:`dra_worlds.world`."""

from dra_worlds.world import Explanation, World, WorldError

__all__ = ["Explanation", "World", "WorldError"]
