"""Predict how an API server of one version and configuration handles an object: rejections, dropped fields, warnings.

Nothing is stored, and no admission plugin is called. Mirrors the processing of a request in
``k8s.io/apiserver/pkg/registry/rest`` (create.go and update.go).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from dra_shared.features import FeatureGates
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject
from dra_shared.version import VERSIONS

from dra_apiserver.admission import Chain
from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.errors import StatusError
from dra_apiserver.handlers.deprecations import deprecation
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind, split_api_version
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import Registry
from dra_apiserver.rest.create import before_create
from dra_apiserver.rest.meta import fill_system_fields, generate_name
from dra_apiserver.rest.update import before_update
from dra_apiserver.schema import DecodeError, decode, default
from dra_apiserver.target import Target

_NOW: Final = "2000-01-01T00:00:00Z"
# Values that a server allocates are constant here, so that two results for one object can be compared.
_UID: Final = "00000000-0000-4000-8000-000000000000"
_NAME_SUFFIX: Final = "00000"
# The label for admin access. It is assumed for a namespace that is not among the objects.
_ANY_NAMESPACE: Final = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
_UNKNOWN: Final = "unknown field "


@dataclass
class Warnings:
    """A replacement for a request, which collects warnings."""

    texts: list[str] = field(default_factory=list)

    def warn(self, texts: list[str]) -> None:
        """Add warnings."""
        self.texts += texts


class Place(NamedTuple):
    """A kind's availability in one version, and the other versions that serve it."""

    known: bool
    """True if Kubernetes has the kind in that version, served or not."""
    served: bool
    elsewhere: tuple[str, ...]
    """The served API versions of the kind, the preferred one first."""
    gate: str
    """The feature gate that the kind requires; empty for most."""
    versions: tuple[str, ...] = ()
    """All API versions of the kind in Kubernetes, served or not, the preferred one first."""
    deprecated: str = ""
    """The warning for each request in this API version."""


class Verdict(NamedTuple):
    """The result for an object."""

    refused: tuple[str, ...] = ()
    """The errors for which it is rejected."""
    dropped: tuple[str, ...] = ()
    """Paths of the fields that are not stored."""
    warnings: tuple[str, ...] = ()
    stored: JsonObject | None = None
    """The object with its defaults, in its given version; None if it is rejected."""


class Judge:
    """An API server's registry with its gates. ``namespaces`` are the given Namespace objects, by name."""

    def __init__(
        self,
        gates: FeatureGates,
        runtime_config: str = "",
        namespaces: Mapping[str, JsonObject] | None = None,
    ) -> None:
        self.gates = gates
        self._registry = catalog.registry(runtime_config, gates)
        self._every = catalog.registry("api/all=true", kubernetes=gates.version)
        self._namespaces = namespaces or {}

    def place(self, api_version: str, kind: str) -> Place:
        """Return where the kind of an object is served."""
        group, version = split_api_version(api_version)
        known = self._every.kind(group, version, kind)
        gated = known or next((one for one in self._every if (one.group, one.kind) == (group, kind)), None)
        served = self._registry.kind(group, version, kind) is not None
        return Place(
            known is not None,
            served,
            _versions(self._registry, group, kind),
            gated.release.feature_gate if gated is not None else "",
            _versions(self._every, group, kind),
            (deprecation(known, version) if known is not None else None) or "",
        )

    def can_read(self, api_version: str, kind: str) -> bool:
        """True if objects that are stored as ``kind`` of ``api_version`` can be read."""
        group, version = split_api_version(api_version)
        return self._every.known_kind(group, version, kind) is not None

    def storage_version(self, api_version: str, kind: str) -> str:
        """Return the API version in which this server stores such objects; empty for an unknown kind."""
        group, version = split_api_version(api_version)
        known = self._every.kind(group, version, kind)
        return known.api_version(known.release.hashed_version) if known is not None else ""

    def create(self, obj: JsonObject) -> Verdict:
        """Return the result for a new object, of a kind that is known in its version."""
        return self._judge(obj, update=False)

    def keep(self, obj: JsonObject) -> Verdict:
        """Return the result of the next update of an object that an older or newer server has stored."""
        return self._judge(obj, update=True)

    def _judge(self, obj: JsonObject, *, update: bool) -> Verdict:
        group, version = split_api_version(obj["apiVersion"])
        kind = self._every.kind(group, version, obj["kind"])
        assert kind is not None
        try:
            decoded = decode(self._every, kind, version, dumps(obj), field_validation="Warn")
        except DecodeError as error:
            return Verdict((str(error),))
        wanted = _complete_names(kind, decoded.obj)
        warnings = Warnings([text for text in decoded.warnings if not text.startswith(_UNKNOWN)])
        unknown = [
            text.removeprefix(_UNKNOWN).strip('"') for text in decoded.warnings if text.startswith(_UNKNOWN)
        ]
        try:
            stored = self._write(kind, version, wanted, warnings, update=update)
        except StatusError as error:
            return Verdict(_reasons(error), tuple(unknown))
        default(kind, version, wanted, _NOW)
        shown = convert(kind, stored, version)
        gone = _find_gone(wanted, shown, "" if update else "status")
        return Verdict((), (*unknown, *gone), tuple(warnings.texts), shown)

    def _write(
        self, kind: Kind, version: str, given: JsonObject, warnings: Warnings, *, update: bool
    ) -> JsonObject:
        obj = copy.deepcopy(given)
        default(kind, version, obj, _NOW)
        to_storage(kind, obj, version)
        meta = obj["metadata"]
        target = Target(kind, version, meta.get("namespace") or "", meta.get("name") or "")
        ctx = Context(
            kind=kind,
            version=version,
            namespace=target.namespace,
            now=_NOW,
            features=self.gates,
            lookup=self._lookup,
            disabled_plugins=_plugins(kind),
            choose=_first,
        )
        request = cast("Request", warnings)
        if not update:
            meta.pop("resourceVersion", None)
            fill_system_fields(obj, _NOW)
            meta["uid"] = _UID
            return before_create(request, target, obj, ctx, Chain())
        old = copy.deepcopy(obj)
        change = before_update(request, target, obj, old, ctx, Chain())
        return change.obj if change is not None else obj

    def _lookup(self, group: str, plural: str, namespace: str, name: str) -> JsonObject | None:
        if (group, plural) != ("", "namespaces"):
            return None
        return self._namespaces.get(name, _ANY_NAMESPACE)


def is_known_to_any(api_version: str, kind: str) -> bool:
    """True if any supported version of Kubernetes serves the kind in ``api_version``."""
    group, version = split_api_version(api_version)
    every = (catalog.registry("api/all=true", kubernetes=one) for one in VERSIONS)
    return any(registry.kind(group, version, kind) is not None for registry in every)


def _versions(registry: Registry, group: str, kind: str) -> tuple[str, ...]:
    return tuple(
        one.api_version(found)
        for one in registry
        if (one.group, one.kind) == (group, kind)
        for found in one.versions
    )


def _plugins(kind: Kind) -> frozenset[str]:
    """Return the admission plugins of a kind. They are skipped because they need other objects."""
    plugins = (*kind.admission.mutating, *kind.admission.validating, *kind.admission.quota)
    return frozenset(name for name, _ in plugins)


def _first(numbers: range) -> int:
    """Return the first number, instead of a random one."""
    return numbers[0]


def _complete_names(kind: Kind, obj: JsonObject) -> JsonObject:
    """Add the namespace that kubectl would choose, and a name if the server would generate one."""
    meta = obj.setdefault("metadata", {})
    if meta.get("generateName") and not meta.get("name"):
        meta["name"] = generate_name(meta["generateName"], _NAME_SUFFIX)
    if kind.namespaced:
        meta["namespace"] = meta.get("namespace") or "default"
    else:
        meta.pop("namespace", None)
    return obj


def _reasons(error: StatusError) -> tuple[str, ...]:
    causes: Sequence[Mapping[str, str]] = (error.status.get("details") or {}).get("causes") or ()
    return tuple(f"{cause.get('field', '')}: {cause['message']}" for cause in causes) or (error.message,)


def _find_gone(before: Any, after: Any, besides: str) -> Iterator[str]:
    """Yield the paths that only ``before`` has, except for metadata and the member ``besides``."""
    for name, value in before.items():
        if name not in ("metadata", besides):
            yield from _find_missing(value, after.get(name), name)


def _find_missing(before: Any, after: Any, path: str) -> Iterator[str]:
    if _is_empty(before):
        return
    if isinstance(before, dict) and after is None:
        # An object that is missing completely has one path. An empty one is not reported.
        if any(True for name, value in before.items() for _ in _find_missing(value, None, name)):
            yield path
    elif isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from _find_missing(value, after.get(name), f"{path}.{name}")
    elif _is_empty(after):
        yield path
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield path
            return
        for position, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _find_missing(one, other, f"{path}[{position}]")


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | dict | list) and not value)
