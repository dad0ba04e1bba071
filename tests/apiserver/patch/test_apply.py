"""Test server-side apply: ownership, conflicts, removal, keyed lists, sets and atomic values."""

import copy
from typing import Any

import pytest
from dra_apiserver import schema
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.patch import (
    ApplyConflict,
    PatchError,
    decode_apply,
    same_but_times,
    server_side_apply,
    track_update,
)
from dra_shared.jsontypes import JsonObject

REGISTRY = catalog.registry("api/all=true")


def kind_of(group: str, plural: str) -> Kind:
    kind = REGISTRY.get(group, plural)
    assert kind is not None
    return kind


MAPS, PODS = kind_of("", "configmaps"), kind_of("", "pods")
CLAIMS = kind_of("resource.k8s.io", "resourceclaims")


def apply(
    kind: Kind, live: JsonObject | None, config: JsonObject, manager: str = "a", **options: Any
) -> JsonObject:
    config = {"apiVersion": kind.api_version(kind.versions[0]), "kind": kind.kind, **config}
    made = server_side_apply(
        kind,
        kind.versions[0],
        copy.deepcopy(live),
        config,
        manager=manager,
        now=options.pop("now", "2026-11-20T15:00:01Z"),
        **options,
    )
    schema.sanitize(schema.object_type(kind, kind.versions[0]), made)
    schema.default(kind, kind.versions[0], made)
    return made


def write(
    kind: Kind,
    live: JsonObject,
    manager: str,
    subresource: str = "",
    now: str = "2026-11-20T15:00:02Z",
    **changes: Any,
) -> JsonObject:
    made = copy.deepcopy(live) | changes
    track_update(kind, kind.versions[0], live, made, manager=manager, subresource=subresource, now=now)
    return made


def get_owned(obj: JsonObject, manager: str) -> Any:
    entries = [one for one in obj["metadata"].get("managedFields", ()) if one["manager"] == manager]
    return entries[0]["fieldsV1"] if entries else None


def test_the_manager_of_an_apply_owns_the_applied_fields() -> None:
    made = apply(MAPS, None, {"metadata": {"name": "m", "labels": {"l": "1"}}, "data": {"x": "1"}})
    assert get_owned(made, "a") == {"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}
    entry = made["metadata"]["managedFields"][0]
    assert (entry["operation"], entry["apiVersion"], entry["time"]) == ("Apply", "v1", "2026-11-20T15:00:01Z")


def test_fields_that_are_no_longer_applied_are_removed() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1", "y": "2"}})
    second = apply(MAPS, first, {"metadata": {"name": "m"}, "data": {"y": "2"}})
    assert second["data"] == {"y": "2"}
    third = apply(MAPS, second, {"metadata": {"name": "m"}})
    assert "data" not in third
    assert get_owned(third, "a") is None


def test_fields_of_other_managers_are_kept() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1"}})
    both = apply(MAPS, first, {"metadata": {"name": "m"}, "data": {"x": "1"}}, "b")
    left = apply(MAPS, both, {"metadata": {"name": "m"}})
    assert left["data"] == {"x": "1"}
    assert get_owned(left, "b") == {"f:data": {"f:x": {}}}


def test_applying_another_value_to_an_owned_field_is_a_conflict() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1"}})
    with pytest.raises(ApplyConflict) as caught:
        apply(MAPS, first, {"metadata": {"name": "m"}, "data": {"x": "2"}}, "b")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "a": .data.x'
    assert caught.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.x"}
    ]


def test_conflicts_with_several_managers_are_listed_by_manager() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1"}})
    second = write(MAPS, first, "kubectl-edit", data={"x": "1", "y": "2", "z": "3"})
    with pytest.raises(ApplyConflict) as caught:
        apply(MAPS, second, {"metadata": {"name": "m"}, "data": {"x": "8", "y": "9", "z": "9"}}, "b")
    assert str(caught.value) == (
        'Apply failed with 3 conflicts: conflicts with "a":\n- .data.x\n'
        'conflicts with "kubectl-edit" using v1:\n- .data.y\n- .data.z'
    )


def test_a_forced_apply_takes_over_fields_of_other_managers() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1", "y": "1"}})
    second = apply(MAPS, first, {"metadata": {"name": "m"}, "data": {"x": "2"}}, "b", force=True)
    assert second["data"] == {"x": "2", "y": "1"}
    assert get_owned(second, "a") == {"f:data": {"f:y": {}}}
    assert get_owned(second, "b") == {"f:data": {"f:x": {}}}


def test_updates_take_over_fields_without_conflict() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1", "y": "1"}})
    second = write(MAPS, first, "editor", data={"x": "2", "y": "1"})
    assert get_owned(second, "a") == {"f:data": {"f:y": {}}}
    assert get_owned(second, "editor") == {"f:data": {"f:x": {}}}


def test_a_removed_field_is_removed_from_its_owners() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1", "y": "1"}})
    second = write(MAPS, first, "editor", data={"y": "1"})
    assert get_owned(second, "a") == {"f:data": {"f:y": {}}}
    assert get_owned(second, "editor") is None


def test_the_first_apply_gives_existing_fields_to_the_manager_before_first_apply() -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": "1"}}
    made = apply(MAPS, live, {"metadata": {"name": "m"}, "data": {"y": "2"}})
    assert get_owned(made, "before-first-apply") == {"f:data": {".": {}, "f:x": {}}}
    with pytest.raises(ApplyConflict, match="before-first-apply"):
        apply(MAPS, live, {"metadata": {"name": "m"}, "data": {"x": "2"}})


def test_an_update_of_an_object_without_managed_fields_adds_none() -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": "1"}}
    assert "managedFields" not in write(MAPS, live, "editor", data={"x": "2"})["metadata"]


def test_applying_the_same_configuration_again_changes_nothing() -> None:
    config = {"metadata": {"name": "m"}, "data": {"x": "1"}}
    first = apply(MAPS, None, config)
    again = apply(MAPS, first, config, now="2026-11-20T15:00:09Z")
    assert again == first
    assert same_but_times(first, again)


def containers(*names: str, **fields: Any) -> JsonObject:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": name, **fields} for name in names]}}


def test_keyed_list_items_belong_to_their_appliers() -> None:
    first = apply(PODS, None, containers("one", image="a:1"))
    second = apply(PODS, first, containers("two", image="b:1"), "b")
    assert [one["name"] for one in second["spec"]["containers"]] == ["one", "two"]
    third = apply(PODS, second, containers("one", image="a:2"))
    assert [one["image"] for one in third["spec"]["containers"]] == ["a:2", "b:1"]
    with pytest.raises(ApplyConflict) as caught:
        apply(PODS, third, containers("two", image="c:1"))
    assert caught.value.causes[0]["field"] == '.spec.containers[name="two"].image'


def test_items_that_are_no_longer_applied_are_removed() -> None:
    first = apply(PODS, None, containers("one", "two", image="a:1"))
    second = apply(PODS, first, containers("two", image="a:1"))
    assert [one["name"] for one in second["spec"]["containers"]] == ["two"]


def test_ports_are_identified_by_port_and_protocol_which_has_a_default() -> None:
    made = apply(PODS, None, containers("c", ports=[{"containerPort": 80}]))
    ports = get_owned(made, "a")["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert ports == {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}


def test_appliers_of_finalizers_own_only_their_own_finalizers() -> None:
    first = apply(MAPS, None, {"metadata": {"name": "m", "finalizers": ["x/one"]}})
    second = apply(MAPS, first, {"metadata": {"name": "m", "finalizers": ["x/two"]}}, "b")
    assert second["metadata"]["finalizers"] == ["x/one", "x/two"]
    assert get_owned(second, "b") == {"f:metadata": {"f:finalizers": {'v:"x/two"': {}}}}
    third = apply(MAPS, second, {"metadata": {"name": "m"}})
    assert third["metadata"]["finalizers"] == ["x/two"]


def test_atomic_lists_have_one_owner() -> None:
    def claim(name: str) -> JsonObject:
        request = {"name": name, "exactly": {"deviceClassName": "c"}}
        return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}

    first = apply(CLAIMS, None, claim("one"))
    assert get_owned(first, "a") == {"f:spec": {"f:devices": {"f:requests": {}}}}
    with pytest.raises(ApplyConflict) as caught:
        apply(CLAIMS, first, claim("two"), "b")
    assert caught.value.causes[0]["field"] == ".spec.devices.requests"


def device(name: str, **fields: Any) -> JsonObject:
    return {"driver": "d.example.com", "pool": "p", "device": name, **fields}


def test_several_drivers_own_their_own_devices_in_a_claims_status() -> None:
    live = apply(CLAIMS, None, {"metadata": {"name": "c"}, "spec": {"devices": {}}})
    status = {"devices": [device("gpu-0", data={"a": 1})]}
    first = apply(
        CLAIMS, live, {"metadata": {"name": "c"}, "status": status}, "driver-a", subresource="status"
    )
    status = {"devices": [device("gpu-1", shareID="s")]}
    second = apply(
        CLAIMS, first, {"metadata": {"name": "c"}, "status": status}, "driver-b", subresource="status"
    )
    assert [one["device"] for one in second["status"]["devices"]] == ["gpu-0", "gpu-1"]
    key = 'k:{"device":"gpu-1","driver":"d.example.com","pool":"p","shareID":"s"}'
    assert list(get_owned(second, "driver-b")["f:status"]["f:devices"]) == [key]
    entry = second["metadata"]["managedFields"][-1]
    assert entry["subresource"] == "status"


def test_the_status_endpoint_owns_no_spec() -> None:
    live = apply(CLAIMS, None, {"metadata": {"name": "c"}})
    config = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"config": []}},
        "status": {"devices": [device("x")]},
    }
    made = apply(CLAIMS, live, config, "driver", subresource="status")
    assert "f:spec" not in get_owned(made, "driver")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"nope": 1}, ".nope: field not declared in schema"),
        (
            {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
            '.spec.containers: duplicate entries for key [name="a"]',
        ),
        ({"spec": {"containers": {"name": "a"}}}, ".spec.containers: expected list"),
        ({"metadata": {"name": "p", "managedFields": []}}, "metadata.managedFields must be nil"),
    ],
)
def test_malformed_apply_configurations_are_rejected(config: JsonObject, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply(PODS, None, {"metadata": {"name": "p"}, **config})
    assert message in str(caught.value)


def test_an_apply_configuration_with_another_api_version_is_rejected() -> None:
    config = {"apiVersion": "v9", "kind": "ConfigMap", "metadata": {"name": "m"}}
    with pytest.raises(PatchError, match="Incorrect version specified in apply patch"):
        server_side_apply(MAPS, "v1", None, config, manager="a", now="2026-11-20T15:00:01Z")


def test_managed_fields_can_be_cleared() -> None:
    live = apply(MAPS, None, {"metadata": {"name": "m"}, "data": {"x": "1"}})
    made = write(MAPS, live, "editor", metadata={"name": "m", "managedFields": [{}]})
    assert "managedFields" not in made["metadata"]


def test_the_oldest_of_many_updaters_are_merged_into_one_manager() -> None:
    live: JsonObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {"k": "v"},
    }
    track_update(MAPS, "v1", None, live, manager="first", now="2026-11-20T15:00:00Z")
    for number in range(14):
        data = {**live["data"], f"k{number}": "v"}
        live = write(MAPS, live, f"m{number}", now=f"2026-11-20T15:00:{number + 10}Z", data=data)
    managers = [one["manager"] for one in live["metadata"]["managedFields"]]
    assert len(managers) == 10
    assert managers[0] == "ancient-changes"
    assert get_owned(live, "ancient-changes")["f:data"].keys() >= {"f:k", "f:k0"}


def test_apply_bodies_may_be_yaml() -> None:
    assert decode_apply(b"metadata:\n  name: x\n") == {"metadata": {"name": "x"}}
    assert decode_apply(b'{"metadata":{"name":"x"}}') == {"metadata": {"name": "x"}}
    for bad in (b"[]", b"{a: ["):
        with pytest.raises(PatchError, match="error decoding YAML"):
            decode_apply(bad)


def test_an_apply_updates_the_last_applied_annotation_of_kubectl() -> None:
    name = "kubectl.kubernetes.io/last-applied-configuration"
    live = apply(MAPS, None, {"metadata": {"name": "m", "annotations": {name: "{}"}}}, "old")
    made = apply(MAPS, live, {"metadata": {"name": "m"}, "data": {"x": "1"}}, "kubectl")
    assert '"x":"1"' in made["metadata"]["annotations"][name]
