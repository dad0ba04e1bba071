"""Generate the page on DRA in each version of Kubernetes, from the version pages of dra_shared."""

from collections.abc import Iterator, Sequence

from dra_apiserver.kinds.catalog import registry
from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, VERSIONS, Gate, Version, release
from dra_shared.version.release import Change, changes

from tools.reference.markdown import Page, code, table

# Besides those that begin with DRA.
_OTHERS = (
    "CompositePodGroup",
    "DynamicResourceAllocation",
    "GangScheduling",
    "GenericWorkload",
    "KubeletPodResourcesDynamicResources",
    "NodeDeclaredFeatures",
    "PodGroupPreemptionPolicy",
    "ResourceHealthStatus",
    "SchedulerPreQueueingHints",
    "WorkloadAwarePreemption",
)
_GROUPS = ("resource.k8s.io/", "scheduling.k8s.io/")
_PACKAGES = ("core/", "resource/")


def table_of_versions() -> str:
    """Return the table of the versions that can be followed, for docs/versions.md."""
    rows = [[str(one), release(one).patch, _mark(one)] for one in VERSIONS]
    return table(["version", "follows", ""], rows)


def _mark(version: Version) -> str:
    if version.is_preview:
        return "a preview"
    return "the default" if version == DEFAULT else ""


def pages() -> Iterator[Page]:
    """Return a page for each version."""
    for version in VERSIONS:
        yield Page(
            f"reference/kubernetes-{version}.md",
            f"Kubernetes {version}",
            f"What DRA can do in Kubernetes {version}; `--kubernetes-version {version}` follows "
            f"{release(version).patch}: [Versions of Kubernetes](../versions.md).",
            "\n\n".join(_sections(version)),
        )


def _sections(version: Version) -> Iterator[str]:
    yield "## Feature gates"
    yield table(["gate", "stage", "default", "needs", "in the version before"], list(_gates(version)))
    yield "## Served"
    yield table(["group and version", "resources", "needs"], list(_served_resources(version)))
    if came := list(_fields(version)):
        yield "## Fields"
        yield table(["type", "came", "went"], came)


def _gates(version: Version) -> Iterator[list[str]]:
    before = VERSIONS[: VERSIONS.index(version)]
    known, older = release(version).gates, release(before[-1]).gates if before else {}
    for name in sorted({*known, *older}):
        if not name.startswith("DRA") and name not in _OTHERS:
            continue
        gate, was = known.get(name), older.get(name)
        if gate is None:
            yield [code(name), "gone", "", "", _state(was)]
        else:
            needs = ", ".join(code(other) for other in gate.needs)
            default = ("on" if gate.default else "off") + (", locked" if gate.locked else "")
            yield [code(name), gate.stage, default, needs, "" if not before or was == gate else _state(was)]


def _state(gate: Gate | None) -> str:
    return "not there" if gate is None else f"{gate.stage}, {'on' if gate.default else 'off'}"


def _served_resources(version: Version) -> Iterator[list[str]]:
    """Yield the resources that the API server of the version can serve, and the options that they need."""
    by_default = {
        (kind.api_version(served), kind.plural)
        for kind in registry(features=FeatureGates(version))
        for served in kind.versions
    }
    found: dict[tuple[str, str], list[str]] = {}
    for kind in registry("api/all=true", kubernetes=version):
        for place in map(kind.api_version, kind.versions):
            if place.startswith(_GROUPS):
                option = "" if (place, kind.plural) in by_default else f"--runtime-config={place}=true"
                gate = (
                    f"--feature-gates={kind.release.feature_gate}=true" if kind.release.feature_gate else ""
                )
                needs = ", ".join(code(text) for text in (option, gate) if text)
                found.setdefault((place, needs), []).append(code(kind.plural))
    for (place, needs), resources in sorted(found.items()):
        yield [code(place), ", ".join(sorted(resources)), needs]


def _fields(version: Version) -> Iterator[list[str]]:
    found: dict[str, tuple[list[str], list[str]]] = {}
    for (package, field), history in changes("field").items():
        for change in _of(history, version):
            if package.startswith(_PACKAGES):
                type_name, name = field.split(".")
                came, went = found.setdefault(f"{package} {type_name}", ([], []))
                (came if change.came else went).append(code(name))
    for name, (came, went) in sorted(found.items()):
        yield [code(name), ", ".join(came), ", ".join(went)]


def _of(history: Sequence[Change], version: Version) -> Iterator[Change]:
    return (change for change in history if change.version == version)
