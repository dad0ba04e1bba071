"""Test strategic merge patches: merge keys and directives."""

import copy

import orjson
import pytest
from dra_apiserver.kinds import catalog
from dra_apiserver.patch import STRATEGIC_MERGE_PATCH, PatchError
from dra_shared.jsontypes import JsonObject

from tests.apiserver.patch.patching import patch_object
from tests.support.cases import each_case

REGISTRY = catalog.registry("api/all=true")


def apply_patch(obj: JsonObject, patch: JsonObject, group: str = "", plural: str = "pods") -> JsonObject:
    kind = REGISTRY.get(group, plural)
    assert kind is not None
    return patch_object(kind, "v1", copy.deepcopy(obj), orjson.dumps(patch), STRATEGIC_MERGE_PATCH)


POD: JsonObject = {
    "metadata": {"name": "p", "labels": {"a": "1"}, "finalizers": ["x", "y"]},
    "spec": {
        "containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "E", "value": "1"}], "command": ["x"]},
            {"name": "b", "image": "b:1"},
        ],
        "tolerations": [{"key": "t"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


def test_items_are_merged_by_key_and_others_are_kept() -> None:
    made = apply_patch(POD, {"spec": {"containers": [{"name": "b", "image": "b:2"}]}})
    assert [one["image"] for one in made["spec"]["containers"]] == ["a:1", "b:2"]


def test_new_list_items_precede_existing_ones_as_in_upstream() -> None:
    made = apply_patch(POD, {"spec": {"containers": [{"name": "c", "image": "c:1"}]}})
    assert [one["name"] for one in made["spec"]["containers"]] == ["c", "a", "b"]


def test_nested_lists_are_merged_by_key() -> None:
    env = [{"name": "F", "value": "2"}, {"name": "E", "value": "3"}]
    made = apply_patch(POD, {"spec": {"containers": [{"name": "a", "env": env}]}})
    assert made["spec"]["containers"][0]["env"] == env


def test_lists_without_a_strategy_are_replaced() -> None:
    made = apply_patch(
        POD, {"spec": {"tolerations": [{"key": "u"}], "containers": [{"name": "a", "command": ["y"]}]}}
    )
    assert made["spec"]["tolerations"] == [{"key": "u"}]
    assert made["spec"]["containers"][0]["command"] == ["y"]


def test_null_removes_a_field() -> None:
    made = apply_patch(
        POD, {"metadata": {"labels": {"a": None}}, "spec": {"tolerations": None, "nope": None}}
    )
    assert made["metadata"]["labels"] == {}
    assert "tolerations" not in made["spec"]
    assert "nope" not in made["spec"]


def test_items_are_deleted_by_key() -> None:
    made = apply_patch(POD, {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}})
    assert [one["name"] for one in made["spec"]["containers"]] == ["b"]


def test_a_list_is_replaced_by_directive() -> None:
    made = apply_patch(POD, {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}})
    assert made["spec"]["containers"] == [{"name": "z"}]


def test_a_map_is_replaced_by_directive() -> None:
    made = apply_patch(POD, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}})
    assert made["metadata"]["labels"] == {"b": "2"}


def test_a_map_is_emptied_by_directive() -> None:
    assert apply_patch(POD, {"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}


def test_primitive_lists_are_merged_and_items_deleted_by_directive() -> None:
    made = apply_patch(POD, {"metadata": {"finalizers": ["z", "x"]}})
    assert sorted(made["metadata"]["finalizers"]) == ["x", "y", "z"]
    made = apply_patch(POD, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}})
    assert made["metadata"]["finalizers"] == ["y"]


def test_retain_keys_removes_all_other_fields() -> None:
    volume = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    made = apply_patch(POD, {"spec": {"volumes": [volume]}})
    assert made["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_set_element_order_determines_the_order_of_merged_items() -> None:
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "b", "image": "b:2"}],
        }
    }
    made = apply_patch(POD, patch)
    assert [(one["name"], one["image"]) for one in made["spec"]["containers"]] == [("b", "b:2"), ("a", "a:1")]


def test_set_element_order_alone_reorders_items() -> None:
    made = apply_patch(POD, {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}})
    assert [one["name"] for one in made["spec"]["containers"]] == ["b", "a"]


def test_a_list_item_of_a_new_list_keeps_directives_other_than_patch() -> None:
    volumes = [{"name": "v", "$retainKeys": ["name"]}, {"name": "w", "$patch": "replace"}]
    made = apply_patch({"metadata": {}, "spec": {}}, {"spec": {"volumes": volumes}})
    assert made["spec"]["volumes"] == [{"name": "v", "$retainKeys": ["name"]}]


def test_the_patched_object_is_not_modified() -> None:
    before = orjson.dumps(POD)
    apply_patch(POD, {"spec": {"containers": [{"name": "a", "image": "z"}]}})
    assert orjson.dumps(POD) == before


@each_case(
    ("patch", "code", "message"),
    [
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        ({"metadata": {"$patch": "what"}}, 500, "unknown patch type: what in map: map[$patch:what]"),
        (
            {"metadata": {"$patch": 5, "x": 1e6}},
            500,
            "unknown patch type: %!s(int64=5) in map: map[$patch:5 x:1e+06]",
        ),
        (
            {"spec": {"containers": [{"$patch": "merge"}]}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"metadata": {"labels": {"$retainKeys": ["b"], "c": "1"}}},
            400,
            "invalid patch format of retainKeys",
        ),
        (
            {"metadata": {"finalizers": [["a"]]}},
            500,
            "list element types are not identical: [[x y] [[a]]]",
        ),
        (
            {"spec": {"$setElementOrder/containers": [None], "containers": [{"name": "a"}]}},
            500,
            "expected a map[string]interface {}, but received a %!s(<nil>)",
        ),
        ({"spec": {"$setElementOrder/nope": []}}, 500, "unable to find api field in struct PodSpec for"),
        (
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "a"}],
                    "containers": [{"name": "b", "image": "x"}],
                }
            },
            500,
            "doesn't match $setElementOrder list",
        ),
    ],
)
def test_invalid_strategic_patches_are_rejected(patch: JsonObject, code: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_patch(POD, patch)
    assert message in str(caught.value)
    assert caught.value.code == code


def test_too_deeply_nested_patches_are_rejected() -> None:
    kind = REGISTRY.get("", "pods")
    assert kind is not None
    body = b'{"spec":' * 1500 + b"null" + b"}" * 1500
    with pytest.raises(PatchError, match="exceeded max depth"):
        patch_object(kind, "v1", copy.deepcopy(POD), body, STRATEGIC_MERGE_PATCH)
