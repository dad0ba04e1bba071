"""Objects under other names: nothing says whose cluster they are of, and decisions about them stay the same.

``fields`` says of each field whether it is private, ``objects`` walks objects by their types, ``names`` finds new
names, and ``expressions`` rewrites CEL.
"""

from dra_worlds.anonymous.objects import anonymize

__all__ = ["anonymize"]
