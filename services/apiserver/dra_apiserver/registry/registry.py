"""The table of kinds that the API server serves."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, Version

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.registry.runtime_config import RuntimeConfig


class Registry:
    """Finds a kind by its resource path or by its object's apiVersion and kind.

    Kinds can be added and removed while the server runs (custom resources). ``generation`` counts these
    changes, so that documents derived from the registry can be updated. ``kubernetes`` is the version of the
    kinds.
    """

    def __init__(
        self,
        kinds: Iterable[Kind] = (),
        group_versions: Sequence[tuple[str, Sequence[str]]] = (),
        *,
        all_kinds: Iterable[Kind] = (),
        kubernetes: Version = DEFAULT,
    ) -> None:
        self.generation = 0
        self.kubernetes = kubernetes
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._by_resource: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str, str], Kind] = {}
        self._known: dict[tuple[str, str, str], Kind] = {
            (info.group, version, info.kind): info for info in all_kinds for version in info.all_versions
        }
        self._order = {
            group: (index, list(versions)) for index, (group, versions) in enumerate(group_versions)
        }
        for info in kinds:
            self.add(info)

    @classmethod
    def create_serving(
        cls,
        kinds: Sequence[Kind],
        group_versions: Sequence[tuple[str, Sequence[str]]],
        config: RuntimeConfig,
        features: FeatureGates | None = None,
        kubernetes: Version = DEFAULT,
    ) -> "Registry":
        """Return a registry of the ``kinds`` and versions that ``config`` enables.

        ``features`` removes kinds whose feature gate is off; None keeps all.
        """
        served = []
        for kind in kinds:
            if (
                kind.release.feature_gate
                and features is not None
                and not features.enabled(kind.release.feature_gate)
            ):
                continue
            versions = tuple(v for v in kind.versions if config.serves(kind.group, v, kind.plural))
            if versions:
                served.append(kind if versions == kind.versions else replace(kind, versions=versions))
        return cls(served, group_versions, all_kinds=kinds, kubernetes=kubernetes)

    def add(self, info: Kind) -> None:
        """Serve ``info``. It replaces a kind of the same group and plural."""
        place = (info.group, _own_name(info))
        self.remove(*place)
        self._kinds[place] = info
        for version in info.versions:
            seen = info.seen.get(version, info)
            self._by_resource[info.group, version, info.plural] = seen
            self._by_kind[info.group, version, info.kind] = seen
        self.generation += 1

    def remove(self, group: str, plural: str) -> Kind | None:
        """Stop serving a kind, by its name in :meth:`get`. Return the kind."""
        info = self._kinds.pop((group, plural), None)
        if info is not None:
            for version in info.versions:
                del self._by_resource[group, version, info.plural]
                self._by_kind.pop((group, version, info.kind), None)
            self.generation += 1
        return info

    def __iter__(self) -> Iterator[Kind]:
        # Return a copy, because kinds may be added and removed while threads iterate over them.
        return iter(list(self._kinds.values()))

    def get(self, group: str, plural: str) -> Kind | None:
        """Return the kind of a resource, in any of its served versions, or None.

        If two kinds have the same name in different versions, one of them has another storage resource, and is
        found by that name.
        """
        return self._kinds.get((group, plural))

    def resource(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind served at ``/apis/<group>/<version>/…/<plural>``, or None."""
        return self._by_resource.get((group, version, plural))

    def kind(self, group: str, version: str, kind: str) -> Kind | None:
        """Return the kind of objects with ``apiVersion: group/version`` and ``kind``, or None."""
        return self._by_kind.get((group, version, kind))

    def known_kind(self, group: str, version: str, kind: str) -> Kind | None:
        """Return the same as :meth:`kind`, also for versions that are not served."""
        return self._by_kind.get((group, version, kind)) or self._known.get((group, version, kind))

    def groups(self) -> list[str]:
        """Return the served groups in the order of discovery. The core group, ``""``, is the first."""
        present = {info.group for info in self._kinds.values()}
        known = [group for group in self._order if group in present]
        return known + sorted(present.difference(known))

    def versions(self, group: str) -> list[str]:
        """Return the served versions of a group, the preferred one first."""
        present = {
            version for info in self._kinds.values() if info.group == group for version in info.versions
        }
        _, order = self._order.get(group, (0, []))
        known = [version for version in order if version in present]
        return known + sorted(present.difference(known), key=version_priority)

    def is_custom(self, group: str) -> bool:
        """True if a group only has custom resources, or no kinds."""
        return all(info.types.names_itself for info in self._kinds.values() if info.group == group)

    def kinds_in(self, group: str, version: str) -> list[Kind]:
        """Return the kinds of one group and version, sorted by plural name."""
        return sorted(
            (info for info in self._kinds.values() if info.group == group and version in info.versions),
            key=lambda info: info.plural,
        )


def _own_name(info: Kind) -> str:
    return info.storage[1] if info.storage[0] == info.group else info.plural


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key that puts Kubernetes versions in order of preference: v2, v1, v1beta2, v1beta1,
    v1alpha1, others.
    """
    stages = {"": 0, "beta": 1, "alpha": 2}
    for name in ("beta", "alpha", ""):
        major, found, minor = version[1:].partition(name) if name else (version[1:], "", "0")
        if version.startswith("v") and major.isdigit() and minor.isdigit() and (found or not name):
            return stages[name], -int(major), -int(minor), ""
    return 3, 0, 0, version
