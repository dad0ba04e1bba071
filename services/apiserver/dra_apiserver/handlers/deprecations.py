"""Which served versions are on their way out; a request for one is answered with a warning."""

from __future__ import annotations

from dra_apiserver.registry import KindInfo

# (group, version): since, until; the kinds' prerelease lifecycle as of 1.36.
_VERSIONS = {
    ("resource.k8s.io", "v1beta1"): ("1.35", "1.38"),
    ("resource.k8s.io", "v1beta2"): ("1.36", "1.39"),
    ("resource.k8s.io", "v1alpha3"): ("1.36", "1.39"),
}
_FRESH = {
    ("resource.k8s.io", "v1beta2", "DeviceTaintRule"),
    ("resource.k8s.io", "v1alpha3", "ResourcePoolStatusRequest"),
}
_KINDS = {
    ("", "v1", "ComponentStatus"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "v1", "Endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


def deprecation(kind: KindInfo, version: str) -> str | None:
    """The warning for a request that uses the kind in this version."""
    if kind.custom is not None:
        made = kind.custom[version]
        if not made.deprecated:
            return None
        return made.deprecation_warning or f"{kind.api_version(version)} {kind.kind} is deprecated"
    known = _KINDS.get((kind.group, version, kind.kind))
    if known is not None or (kind.group, version, kind.kind) in _FRESH:
        return known
    found = _VERSIONS.get((kind.group, version))
    if found is None:
        return None
    return (
        f"{kind.api_version(version)} {kind.kind} is deprecated in v{found[0]}+, unavailable in v{found[1]}+"
    )
