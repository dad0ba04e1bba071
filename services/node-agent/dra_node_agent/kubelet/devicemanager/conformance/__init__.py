"""Answers to recorded worlds of the kubelet's device manager, and whether two answers agree.

Where the real code walks a Go map, a case has several outcomes; ours is one of them.
"""

from dra_node_agent.kubelet.devicemanager.conformance.answers import answer
from dra_node_agent.kubelet.devicemanager.conformance.comparison import agrees

__all__ = ["agrees", "answer"]
