"""The table of kinds that the API server serves."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from dra_shared.api.schema import kinds_document
from dra_shared.features import FeatureGates

from dra_apiserver.registry.kinds import ALL_VERBS, KindInfo, ScalePaths, SelectableField, Subresource
from dra_apiserver.registry.runtime_config import RuntimeConfig

# Kinds that are served, whatever the runtime configuration says, only while a feature is on.
_GATED = {
    ("scheduling.k8s.io", "podgroups"): "GenericWorkload",
    ("scheduling.k8s.io", "workloads"): "GenericWorkload",
}
_STATUS_VERBS = frozenset({"get", "patch", "update"})


class Registry:
    """Finds a kind by its resource path or by its object's apiVersion and kind.

    Kinds can be added and removed while the server runs (custom resources); ``generation`` counts those
    changes, so that whoever derives documents from the registry knows when to derive them again.
    """

    def __init__(
        self,
        kinds: Iterable[KindInfo] = (),
        group_versions: Sequence[tuple[str, Sequence[str]]] = (),
        *,
        all_kinds: Iterable[KindInfo] = (),
    ) -> None:
        self.generation = 0
        self._kinds: dict[tuple[str, str], KindInfo] = {}
        self._by_resource: dict[tuple[str, str, str], KindInfo] = {}
        self._by_kind: dict[tuple[str, str, str], KindInfo] = {}
        self._known: dict[tuple[str, str, str], KindInfo] = {
            (info.group, version, info.kind): info for info in all_kinds for version in info.all_versions
        }
        self._order = {
            group: (index, list(versions)) for index, (group, versions) in enumerate(group_versions)
        }
        for info in kinds:
            self.add(info)

    @classmethod
    def default(
        cls, runtime_config: RuntimeConfig | str = "", features: FeatureGates | None = None
    ) -> "Registry":
        """The built-in kinds in the versions that ``runtime_config`` switches on.

        ``features``: without kinds whose feature gate is off; None leaves them all in.

        Raises:
            RuntimeConfigError: ``runtime_config`` is malformed, or about what does not exist.
        """
        config = cls.configured(runtime_config) if isinstance(runtime_config, str) else runtime_config
        document = _document()
        every = [_parse(entry) for entry in document["kinds"]]
        served = []
        for info in every:
            gate = _GATED.get((info.group, info.plural))
            if gate is not None and features is not None and not features.enabled(gate):
                continue
            versions = tuple(v for v in info.versions if config.serves(info.group, v, info.plural))
            if versions:
                served.append(replace(info, versions=versions))
        groups = [(group["name"], group["versions"]) for group in document["groups"]]
        return cls(served, groups, all_kinds=every)

    @staticmethod
    def configured(runtime_config: str) -> RuntimeConfig:
        """What ``--runtime-config`` says about the built-in kinds.

        Raises:
            RuntimeConfigError: it is malformed, or about what does not exist.
        """
        config = RuntimeConfig.parse(runtime_config)
        config.check({group["name"] for group in _document()["groups"]})
        return config

    def add(self, info: KindInfo) -> None:
        """Serve ``info``, in place of a kind of the same group and plural."""
        self.remove(info.group, info.plural)
        self._kinds[info.group, info.plural] = info
        for version in info.versions:
            self._by_resource[info.group, version, info.plural] = info
            self._by_kind[info.group, version, info.kind] = info
        self.generation += 1

    def remove(self, group: str, plural: str) -> KindInfo | None:
        """Stop serving a kind; returns what it was."""
        info = self._kinds.pop((group, plural), None)
        if info is not None:
            for version in info.versions:
                del self._by_resource[group, version, plural]
                self._by_kind.pop((group, version, info.kind), None)
            self.generation += 1
        return info

    def __iter__(self) -> Iterator[KindInfo]:
        return iter(self._kinds.values())

    def get(self, group: str, plural: str) -> KindInfo | None:
        """The kind of a resource, whatever versions it is served in."""
        return self._kinds.get((group, plural))

    def resource(self, group: str, version: str, plural: str) -> KindInfo | None:
        """The kind served at ``/apis/<group>/<version>/…/<plural>``."""
        return self._by_resource.get((group, version, plural))

    def kind(self, group: str, version: str, kind: str) -> KindInfo | None:
        """The kind of objects that say ``apiVersion: group/version`` and ``kind``."""
        return self._by_kind.get((group, version, kind))

    def known_kind(self, group: str, version: str, kind: str) -> KindInfo | None:
        """As :meth:`kind`, but also for versions that are not served now."""
        return self._by_kind.get((group, version, kind)) or self._known.get((group, version, kind))

    def groups(self) -> list[str]:
        """The served groups in the order discovery lists them; the core group, ``""``, comes first."""
        present = {info.group for info in self._kinds.values()}
        known = [group for group in self._order if group in present]
        return known + sorted(present.difference(known))

    def versions(self, group: str) -> list[str]:
        """The served versions of a group, the preferred one first."""
        present = {
            version for info in self._kinds.values() if info.group == group for version in info.versions
        }
        _, order = self._order.get(group, (0, []))
        known = [version for version in order if version in present]
        return known + sorted(present.difference(known), key=version_priority)

    def kinds_in(self, group: str, version: str) -> list[KindInfo]:
        """The kinds of one group and version, by plural name."""
        return sorted(
            (info for info in self._kinds.values() if info.group == group and version in info.versions),
            key=lambda info: info.plural,
        )


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts Kubernetes versions in order of preference: v2, v1, v1beta2, v1beta1, v1alpha1,
    others.
    """
    stages = {"": 0, "beta": 1, "alpha": 2}
    for name in ("beta", "alpha", ""):
        major, found, minor = version[1:].partition(name) if name else (version[1:], "", "0")
        if version.startswith("v") and major.isdigit() and minor.isdigit() and (found or not name):
            return stages[name], -int(major), -int(minor), ""
    return 3, 0, 0, version


@functools.cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(kinds_document())
    return document


def _verbs(entry: Sequence[str] | str) -> frozenset[str]:
    return ALL_VERBS if entry == "all" else frozenset(entry)


def _subresource(entry: Mapping[str, Any], name: str, value: Any) -> Subresource:
    group, version, kind = entry["group"], entry["storageVersion"], entry["kind"]
    if value == "status":
        return Subresource(name, _STATUS_VERBS, group, version, kind)
    if isinstance(value, list):
        return Subresource(name, frozenset(value), group, version, kind)
    return Subresource(
        name,
        frozenset(value["verbs"]),
        value.get("group", group),
        value.get("version", version),
        value["kind"],
    )


def selectable_field(label: str, path: str, absent: str = "") -> SelectableField:
    """A selectable field from the dotted ``path`` to its value; ``a|b`` reads b where a is absent."""
    return SelectableField(label, tuple(tuple(option.split(".")) for option in path.split("|")), absent)


def _selectable(entry: Mapping[str, Any]) -> dict[str, SelectableField]:
    fields = {"metadata.name": selectable_field("metadata.name", "metadata.name")}
    if entry["namespaced"]:
        fields["metadata.namespace"] = selectable_field("metadata.namespace", "metadata.namespace")
    for label, (path, absent) in entry.get("selectableFields", {}).items():
        fields[label] = selectable_field(label, path, absent)
    return fields


def _parse(entry: Mapping[str, Any]) -> KindInfo:
    stored_group, _, stored_plural = entry.get("storedAs", f"{entry['group']}/{entry['plural']}").partition(
        "/"
    )
    scale = entry.get("scale")
    return KindInfo(
        group=entry["group"],
        kind=entry["kind"],
        plural=entry["plural"],
        singular=entry["singular"],
        namespaced=entry["namespaced"],
        versions=tuple(entry["versions"]),
        all_versions=tuple(entry["versions"]),
        storage_version=entry["storageVersion"],
        storage=(stored_group, stored_plural),
        verbs=_verbs(entry["verbs"]),
        short_names=tuple(entry.get("shortNames", ())),
        categories=tuple(entry.get("categories", ())),
        subresources={
            name: _subresource(entry, name, value) for name, value in entry.get("subresources", {}).items()
        },
        selectable_fields=_selectable(entry),
        scale=None if scale is None else ScalePaths(*scale),
        deprecated=entry.get("deprecated", {}),
    )
