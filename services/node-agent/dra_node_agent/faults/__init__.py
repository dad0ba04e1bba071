"""Faults of nodes on demand: of their devices, drivers, kubelets and clocks, each for a limited time.

``devices`` and ``nodes`` implement them, ``routes`` serves them at ``/faults`` of the node agent. No
counterpart upstream.
"""
