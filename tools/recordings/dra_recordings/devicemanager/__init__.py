"""Answers for recorded worlds of the kubelet's device manager, and their comparison.

If the real code iterates over a Go map, a case has several outcomes. Ours is one of them.
"""

from dra_recordings.devicemanager.answers import answer
from dra_recordings.devicemanager.comparison import agrees

__all__ = ["agrees", "answer"]
