"""The permissions of the translating controller under RBAC. Not part of upstream."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kinds.rbac.bootstrap import controller_role

_READ = ["get", "list", "watch"]
_KEEP = ["create", "delete", "get", "list", "patch", "update", "watch"]
_GPU = ["gpu.nvidia.com", "gpu.resource.nvidia.com", "gpu.resource.example.com"]
_RULES: list[JsonObject] = [
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["deviceclasses", "podschedulingcontexts", "resourceclaims", "resourceclaimtemplates"],
        "verbs": _KEEP,
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["podschedulingcontexts/status", "resourceclaims/status"],
        "verbs": ["patch", "update"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": [
            "resourceclaimparameters",
            "resourceclasses",
            "resourceclassparameters",
            "resourceslices",
        ],
        "verbs": _READ,
    },
    {"apiGroups": _GPU, "resources": ["*"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["configmaps", "namespaces", "nodes", "pods"], "verbs": _READ},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
]


def roles_and_bindings() -> Iterator[JsonObject]:
    """Yield the controller's role, and the binding to its account."""
    yield from controller_role("classic-dra-controller", _RULES)
