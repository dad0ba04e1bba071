"""The data of one version of Kubernetes: feature gates, served resources, storage versions, fields.

The pages have a fact a line, and each page only what changed with its version:

    release 1.35.6                   the patch release that is followed
    gate NAME Alpha|Beta|GA|Deprecated on|off [locked] [< NEEDED …]
    serve GROUP/VERSION RESOURCE…    a resource or subresource that the version began to serve
    store GROUP/RESOURCE VERSION     the version that objects are stored in; ``apart``: no other version can read them
    deprecated GROUP/VERSION RESOURCE TEXT  the warning about a deprecated version, if it is not that of the schema data
    field PACKAGE TYPE.NAME…         a field that a type of the Go package, such as core/v1, began to have
    select GROUP/RESOURCE PATH…      a field that field selectors may name from then on
    optional PACKAGE TYPE.NAME…      a field that is not required any more

``gate -NAME``, ``serve GROUP/VERSION -RESOURCE`` and ``field PACKAGE -TYPE.NAME`` say what went away.
``gate -NAME on``: the gate went away, and what it enabled is always on. What no page names is the same in all
versions. Mirrors ``pkg/features/kube_features.go`` (the versioned specs of gates), the lifecycles of ``k8s.io/api``
and ``pkg/kubeapiserver/default_storage_factory_builder.go``.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from dra_shared.version.version import VERSIONS, Version

_PAGES = "dra_shared.version"


class Gate(NamedTuple):
    """One feature gate. ``needs`` are the gates that it depends on."""

    stage: str
    default: bool
    locked: bool
    needs: tuple[str, ...]


class Change(NamedTuple):
    """A change of a version: something that it added or removed."""

    version: Version
    came: bool


Name = tuple[str, str]
"""A group and version with a resource, or a Go package with ``TYPE.FIELD``."""


@dataclass(frozen=True)
class Release:
    """The data of one version."""

    version: Version
    patch: str
    """The patch release that is followed, such as 1.36.2."""
    gates: Mapping[str, Gate]
    always_on: frozenset[str]
    """Gates that were removed, and whose features are always on."""
    storage: Mapping[str, str]
    """The storage version by ``GROUP/RESOURCE``. Other resources have theirs in the schema data."""
    deprecated: Mapping[Name, str]
    """Warnings about versions of resources that differ from the schema data's."""
    apart: frozenset[str]
    """Resources whose stored objects cannot be read by other versions."""
    _absent_resources: frozenset[Name]
    _absent_fields: frozenset[Name]
    _absent_selectors: frozenset[Name]
    _optional_fields: frozenset[Name]
    _required_fields: Sequence[Name]
    _atomic_fields: frozenset[Name]

    @property
    def git_version(self) -> str:
        """The version in ``/version`` and in a node's ``kubeletVersion``, such as v1.36.2."""
        return f"v{self.patch}"

    def serves(self, group_version: str, resource: str) -> bool:
        """True if this version can serve ``resource``, such as ``pods`` or ``pods/status``."""
        return (group_version, resource) not in self._absent_resources

    def has_field(self, package: str, type_name: str, name: str) -> bool:
        """True if the type of a Go package, such as ``PodSpec`` of ``core/v1``, has the field ``name``."""
        return (package, f"{type_name}.{name}") not in self._absent_fields

    def selects(self, resource: str, path: str) -> bool:
        """True if field selectors may name the field of a ``GROUP/RESOURCE``."""
        return (resource, path) not in self._absent_selectors

    def list_required(self, package: str, type_name: str, newest: Iterable[str]) -> list[str]:
        """Return the required fields of a type, from those of the newest version."""
        names = [name for name in newest if (package, f"{type_name}.{name}") not in self._optional_fields]
        prefix = f"{type_name}."
        own = [name for place, name in self._required_fields if place == package and name.startswith(prefix)]
        return list(dict.fromkeys([*names, *(name.removeprefix(prefix) for name in own)]))

    def is_atomic(self, package: str, type_name: str, name: str) -> bool:
        """True if the field is an atomic list, and in later versions a list with keys."""
        return (package, f"{type_name}.{name}") in self._atomic_fields


def page(version: Version) -> Iterator[tuple[str, str]]:
    """Yield the facts of one version's page: the first word of a line, and the rest."""
    text = (files(_PAGES) / "pages" / f"{version}.txt").read_text()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            about, _, fact = line.partition(" ")
            yield about, fact


@functools.cache
def release(version: Version) -> Release:
    """Return the data of ``version``.

    Raises:
        KeyError: it has no page.
    """
    if version not in VERSIONS:
        raise KeyError(version)
    gates: dict[str, Gate] = {}
    always_on = set[str]()
    patch, storage, apart = "", dict[str, str](), set[str]()
    deprecated: dict[Name, str] = {}
    for one in VERSIONS[: VERSIONS.index(version) + 1]:
        for about, fact in page(one):
            if about == "release":
                patch = fact
            elif about == "store":
                resource, stored, *shape = fact.split()
                storage[resource] = stored
                apart.update([resource] if shape else [])
            elif about == "deprecated":
                group_version, resource, text = fact.split(" ", 2)
                deprecated[group_version, resource] = text
            elif about == "gate" and fact.startswith("-"):
                name, *feature = fact[1:].split()
                del gates[name]
                always_on.update([name] if feature else [])
            elif about == "gate":
                name, gate = _gate(fact)
                gates[name] = gate
    return Release(
        version,
        patch,
        dict(sorted(gates.items())),
        frozenset(always_on),
        storage,
        deprecated,
        frozenset(apart),
        _absent("serve", version),
        _absent("field", version),
        _absent("select", version),
        frozenset(changes("optional")) - _absent("optional", version),
        [name for name in changes("optional") if name in _absent("optional", version)],
        frozenset(changes("atomic")) - _absent("atomic", version),
    )


def _gate(fact: str) -> tuple[str, Gate]:
    words, _, needs = fact.partition(" < ")
    name, stage, default, *locked = words.split()
    return name, Gate(stage, default == "on", bool(locked), tuple(needs.split()))


@functools.cache
def changes(about: str) -> Mapping[Name, Sequence[Change]]:
    """Return the changes of resources (``serve``), fields or field selectors (``select``), oldest first."""
    found: dict[Name, list[Change]] = {}
    for version in VERSIONS:
        for kind, fact in page(version):
            if kind == about:
                group_version, *names = fact.split()
                for name in names:
                    change = Change(version, not name.startswith("-"))
                    found.setdefault((group_version, name.removeprefix("-")), []).append(change)
    return found


def _absent(about: str, version: Version) -> frozenset[Name]:
    """Return the names that ``version`` lacks and another version has."""
    return frozenset(name for name, history in changes(about).items() if not _present(history, version))


def _present(history: Sequence[Change], version: Version) -> bool:
    before = [change for change in history if change.version <= version]
    # A thing that a later version removes existed from the start. One that a later version adds did not.
    return before[-1].came if before else not history[0].came
