"""The list of all packages of kinds ("rooms"), in layers ("floors") from the highest to the lowest.

A new package is added only here. The catalog loads the packages of this list, the import contract of
`tools/roomfloors.py` checks that a package imports only packages in lower layers, and a test compares the list
with docs/architecture.md.
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
