"""Anonymize objects: new names do not identify a user or cluster, and the scheduler's decisions stay the same.

``fields`` lists the fields that are not private, ``objects`` walks objects by their types, ``names`` finds
new names, and ``expressions`` rewrites CEL.
"""

from dra_worlds.anonymous.objects import anonymize

__all__ = ["anonymize"]
