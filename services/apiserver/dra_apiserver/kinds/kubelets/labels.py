"""Labels that kubelets may set on their nodes (k8s.io/kubelet/pkg/apis)."""

from __future__ import annotations

from collections.abc import Mapping

_KUBELETS = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_KUBELETS_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED = ("node-restriction.kubernetes.io",)
_KUBERNETES = ("kubernetes.io", "k8s.io")


def forbidden_changes(labels: Mapping[str, str] | None, before: Mapping[str, str] | None) -> list[str]:
    """Return the sorted labels that were added, changed or removed and that kubelets must not set."""
    after, known = labels or {}, before or {}
    changed = {key for key in {*after, *known} if after.get(key) != known.get(key)}
    return sorted(filter(_is_forbidden, changed))


def _is_forbidden(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    domain = domain if slash else ""
    if _is_of(domain, _RESERVED):
        return True
    return _is_of(domain, _KUBERNETES) and key not in _KUBELETS and not _is_of(domain, _KUBELETS_DOMAINS)


def _is_of(domain: str, domains: tuple[str, ...]) -> bool:
    return domain in domains or domain.endswith(tuple(f".{one}" for one in domains))
