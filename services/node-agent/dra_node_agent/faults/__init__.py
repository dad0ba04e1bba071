"""Faults on demand of nodes: of their devices, drivers, kubelets and clocks, each for a time.

``devices`` and ``nodes`` have them, ``routes`` serves them at ``/faults`` of the node agent. No counterpart upstream.
"""
