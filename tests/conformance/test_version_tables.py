"""Gates and served kinds of all four versions, compared with tables from upstream's source."""

import json
import re

import pytest
from dra_apiserver.discovery import Discovery
from dra_apiserver.kinds import catalog
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version, release

from tests.support.cases import each_case
from tests.support.reference import reference_path

_RELEASES = (V1_34, V1_35, V1_36, V1_37)

# The tables lack the dependencies of these three gates. The real 1.35.6 has them in its gates.json.
_NEEDS_NOT_IN_TABLE = {
    "AuthorizeNodeWithSelectors",
    "DeclarativeValidationBeta",
    "DeclarativeValidationTakeover",
}
# The table has this gate unlocked, although it says that 1.37 locks it (kubernetes/kubernetes#139212).
_LOCKED = {(V1_37, "DeclarativeValidationTakeover")}
# The table was made before 1.37.0: the release has none of these gates, and more dependencies (`make gates`).
_REMOVED = {
    (V1_37, name)
    for name in ("AuthorizeNodeWithSelectors", "AuthorizeWithSelectors", "SchedulerQueueingHints")
}
_NEEDED_TOO = {
    "CompositePodGroup": {"TopologyAwareWorkloadScheduling"},
    "DRADeviceCompatibilityGroups": {"DynamicResourceAllocation"},
    "DRAOptionalNodeOperations": {"NodeDeclaredFeatures"},
    "DRAPartitionableDevicesType": {"DRAPartitionableDevices", "DynamicResourceAllocation"},
}
_API_VERSIONS = ("v1", "v1alpha1", "v1alpha2", "v1alpha3", "v1beta1", "v1beta2")


def _table(name: str) -> JsonObject:
    found: JsonObject = json.loads(reference_path("reference", "kubernetes-1.37", name).read_text())
    return found


def _everything(version: Version) -> FeatureGates:
    gates = release(version).gates
    return FeatureGates(
        version, **{name: gate.default if gate.locked else True for name, gate in gates.items()}
    )


@pytest.mark.parametrize("version", _RELEASES, ids=str)
def test_stages_defaults_and_locks_of_gates_agree_with_upstream(version: Version) -> None:
    known = release(version).gates
    for name, gate in _table("gates.json").items():
        effective = gate["effective"][str(version)]
        if effective in (None, "removed") or (version, name) in _REMOVED:
            assert name not in known
            with pytest.raises(ValueError, match=f"^unrecognized feature gate: {name}$"):
                FeatureGates.parse(f"{name}=true", version)
            continue
        ours = known[name]
        assert (ours.stage.lower(), ours.default, ours.locked) == (
            effective["stage"],
            effective["default"],
            effective["locked"] or (version, name) in _LOCKED,
        ), name
        if ours.locked:
            default, other = str(ours.default).lower(), str(not ours.default).lower()
            refused = f"cannot set feature gate {name} to {other}, feature is locked to {default}"
            with pytest.raises(ValueError, match=re.escape(refused)):
                FeatureGates.parse(f"{name}={other}", version)


def test_dependencies_of_gates_in_1_37_agree_with_upstream() -> None:
    known = release(V1_37).gates
    for name, gate in _table("gates.json").items():
        if name in known and name not in _NEEDS_NOT_IN_TABLE:
            assert set(known[name].needs) == {*gate.get("dependsOn", ()), *_NEEDED_TOO.get(name, ())}, name


@each_case("runtime_config", ["", "api/all=true"])
@each_case("version", _RELEASES, ids=str)
def test_served_kinds_agree_with_upstream(version: Version, runtime_config: str) -> None:
    discovery = Discovery(catalog.registry(runtime_config, _everything(version)))
    for group, about in _table("api-versions.json")["versions"][str(version)].items():
        for name in _API_VERSIONS:
            served = about["served"].get(name)
            wanted = served and (served["servedByDefault"] or runtime_config)
            assert _kinds(discovery, group, name) == (set(served["kinds"]) if wanted else None), (group, name)


@pytest.mark.parametrize("version", _RELEASES, ids=str)
def test_gated_kinds_are_not_served_without_their_gate(version: Version) -> None:
    discovery = Discovery(catalog.registry("api/all=true", FeatureGates(version)))
    for group, about in _table("api-versions.json")["versions"][str(version)].items():
        for name, served in about["served"].items():
            wanted = None if "alsoNeedsGate" in served else set(served["kinds"])
            assert _kinds(discovery, group, name) == wanted, (group, name)


@pytest.mark.parametrize("version", _RELEASES, ids=str)
def test_storage_versions_agree_with_upstream(version: Version) -> None:
    registry = catalog.registry("api/all=true", _everything(version))
    stored = {(one.group, one.plural): one.release.hashed_version for one in registry}
    for group, about in _table("api-versions.json")["versions"][str(version)].items():
        for resources, wanted in about["storage"].items():
            if not wanted.startswith("unconfirmed"):
                assert {stored[group, one] for one in resources.split(",")} == {wanted}, resources


def _kinds(discovery: Discovery, group: str, version: str) -> set[str] | None:
    listed = discovery.resources(group, version)
    if listed is None:
        return None
    return {one["kind"] for one in listed["resources"] if "/" not in one["name"]}
