"""The list of all rooms of kinds, from the highest floor to the lowest.

A new room is named here alone. The catalog loads the rooms of this list, the contract of `tools/roomfloors.py` checks
that a room imports only rooms on lower floors, and a test compares the list with docs/architecture.md.
"""

FLOORS: tuple[tuple[str, ...], ...] = (
    ("autoscaling", "batch", "classic", "policy"),
    ("apps",),
    ("storage",),
    (
        "apiregistration",
        "apiserverinternal",
        "authentication",
        "authorization",
        "coordination",
        "core",
        "lifecycle",
        "node",
        "storagemigration",
    ),
    ("networking", "scheduling"),
    ("custom", "metrics", "pods"),
    ("connect",),
    ("admissionregistration", "certificates", "flowcontrol", "rbac", "resource"),
    ("kubelets",),
)
NOT_IN_CATALOG = frozenset({"classic", "connect", "kubelets", "metrics"})
"""Rooms without kinds, and rooms whose kinds are served only with an option."""
