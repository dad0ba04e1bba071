"""Warnings about pods and pod templates (upstream's ``pkg/api/pod/warnings.go``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.addresswarnings import address_warnings
from dra_apiserver.common.nodelabels import DEPRECATED, term_warnings
from dra_apiserver.kinds.pods.volumewarnings import volume_warnings, whole_bytes

_ANNOTATIONS: Mapping[str, str] = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_USE_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_USE_APPARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_BYTES = ("memory", "ephemeral-storage")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_warnings(template: JsonObject, path: str = "") -> Iterator[str]:
    """Yield the warnings of a pod, or of a template at ``path``, which ends in a dot."""
    spec: JsonObject = template.get("spec") or {}
    annotations: JsonObject = (template.get("metadata") or {}).get("annotations") or {}
    at, annotation = f"{path}spec", f"{path}metadata.annotations"
    yield from _placement(spec, at)
    for key, text in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{annotation}[{key}]: {text}"
    yield from volume_warnings(spec.get("volumes") or [], f"{at}.volumes")
    yield from _warn_repeated(spec.get("hostAliases") or [], "ip", f"{at}.hostAliases")
    secrets = spec.get("imagePullSecrets") or []
    yield from _warn_repeated(secrets, "name", f"{at}.imagePullSecrets")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{at}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from whole_bytes(spec.get("overhead"), _BYTES, f"{at}.overhead")
    if _SECCOMP in annotations and not (spec.get("securityContext") or {}).get("seccompProfile"):
        yield f"{annotation}[{_SECCOMP}]: {_USE_SECCOMP}"
    containers = list(_containers(spec, at))
    for container, where in containers:
        if annotations:
            yield from _profiles(spec, container, annotations, annotation, template=bool(path))
        resources = container.get("resources") or {}
        for name in _BYTES:
            for side in ("limits", "requests"):
                yield from whole_bytes(resources.get(side), (name,), f"{where}.resources.{side}")
        yield from _hidden_variables(container.get("env") or [], where)
    yield from _ports(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield (
            f"{at}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
            "treated as 1"
        )
    yield from _pod_affinity(spec.get("affinity") or {}, f"{at}.affinity")
    for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from address_warnings(f"{at}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address_warnings(f"{at}.hostAliases[{index}].ip", alias.get("ip", ""))


def _placement(spec: JsonObject, at: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or {}:
        if key in DEPRECATED:
            yield f"{at}.nodeSelector[{key}]: {DEPRECATED[key]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    base = f"{at}.affinity.nodeAffinity"
    for index, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from term_warnings(term, f"{base}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for index, term in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{base}.{_PREFERRED}[{index}].preference"
        yield from term_warnings(term.get("preference") or {}, where, values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{at}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in DEPRECATED:
            yield f"{where}.topologyKey: {key} is {DEPRECATED[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NO_SELECTOR}"


def _pod_affinity(affinity: JsonObject, at: str) -> Iterator[str]:
    for side in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(side) or {}
        for index, term in enumerate(found.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{at}.{side}.{_REQUIRED}[{index}].labelSelector: {_NO_SELECTOR}"
        for index, weighted in enumerate(found.get(_PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{at}.{side}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"


def _warn_repeated(items: list[JsonObject], key: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(key, "")
        if value in seen:
            yield f'{path}[{index}].{key}: duplicate {key} "{value}"'
        seen.add(value)


def _containers(spec: JsonObject, at: str) -> Iterator[tuple[JsonObject, str]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield container, f"{at}.{field}[{index}]"


def _profiles(
    spec: JsonObject, container: JsonObject, annotations: JsonObject, path: str, *, template: bool
) -> Iterator[str]:
    own = container.get("securityContext") or {}
    key = _SECCOMP_CONTAINER + container.get("name", "")
    if key in annotations and not own.get("seccompProfile"):
        yield f"{path}[{key}]: {_USE_SECCOMP}"
    key = _APPARMOR + container.get("name", "")
    pod_wide = (spec.get("securityContext") or {}).get("appArmorProfile")
    if template and key in annotations and not own.get("appArmorProfile") and not pod_wide:
        yield f"{path}[{key}]: {_USE_APPARMOR}"


def _hidden_variables(variables: list[JsonObject], where: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        extends = reference in value and value != reference and not variable.get("valueFrom")
        if name in seen and not extends:
            yield (
                f'{where}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
            )
        seen.add(name)


def _ports(containers: list[tuple[JsonObject, str]]) -> Iterator[str]:
    listed = [
        (port, f"{where}.ports[{index}]")
        for container, where in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    seen: dict[tuple[int, str], _SamePort] = {}
    for index, (port, where) in enumerate(listed):
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{where}: hostIP set without hostPort: {_port_text(port)}"
        others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), _SamePort())
        for earlier in others.near(port):
            other, there = listed[earlier]
            if how := _conflict(port, other):
                yield f"{where}: {how} port definition with {there}"
        others.add(port, index)
    names: dict[str, str] = {}
    for port, where in listed:
        name = port.get("name")
        if not name:
            continue
        first = names.setdefault(name, where)
        if first != where:
            yield (
                f'{where}: duplicate port name "{name}" with {first}, services and probes that select ports by '
                f"name will use {first}"
            )


class _SamePort:
    """The positions of container ports with equal number and protocol, by host port and host IP."""

    def __init__(self) -> None:
        self._all: list[int] = []
        self._by_host: dict[int, list[int]] = {}
        self._by_address: dict[tuple[int, str], list[int]] = {}

    def add(self, port: JsonObject, index: int) -> None:
        host, address = port.get("hostPort") or 0, port.get("hostIP") or ""
        self._all.append(index)
        self._by_host.setdefault(host, []).append(index)
        self._by_address.setdefault((host, address), []).append(index)

    def near(self, port: JsonObject) -> Iterable[int]:
        """Return the positions that may conflict with the port, in order."""
        host, address = port.get("hostPort") or 0, port.get("hostIP") or ""
        if not host:
            return self._all
        without = self._by_host.get(0, [])
        if not address:
            return merge(without, self._by_host.get(host, []))
        same = (self._by_address.get((host, one), []) for one in (address, ""))
        return merge(without, *same)


def _conflict(port: JsonObject, other: JsonObject) -> str:
    host, other_host = port.get("hostPort") or 0, other.get("hostPort") or 0
    address, other_address = port.get("hostIP") or "", other.get("hostIP") or ""
    if (host, address) == (other_host, other_address):
        return "duplicate"
    if not host or not other_host:
        return "overlapping"
    if host == other_host and (not address) != (not other_address):
        return "dangerously ambiguous"
    return ""


def _port_text(port: JsonObject) -> str:
    """Format the port like a Go struct."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} "
        f"ContainerPort:{port.get('containerPort', 0)} Protocol:{port.get('protocol', '')} "
        f"HostIP:{port.get('hostIP', '')}}}"
    )
