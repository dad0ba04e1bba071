"""Test equality as defined by apimachinery's `equality.Semantic`."""

from typing import Any

from dra_apiserver.schema import same, same_items, same_members

from tests.support.cases import each_case

_CONTAINER, _POD = "io.k8s.api.core.v1.Container", "io.k8s.api.core.v1.PodSpec"
_CLAIM = "io.k8s.api.resource.v1.ResourceClaimSpec"


def _claim(**request: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu", **request}}]}}


@each_case(
    ("kind", "left", "right"),
    [
        (_CONTAINER, {"name": "c", "env": [], "args": None}, {"name": "c"}),
        (_CONTAINER, {"resources": {"limits": {}, "claims": []}}, {}),
        (_CONTAINER, {"tty": False, "workingDir": "", "image": None}, {}),
        (_CONTAINER, {"resources": {"limits": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "1000m"}}}),
        (_POD, {"affinity": None, "nodeSelector": {}, "tolerations": []}, None),
        (_POD, {"affinity": {"podAffinity": None}}, {"affinity": {}}),
        (_CLAIM, {**_claim(selectors=[], tolerations=[])}, _claim()),
        (_CLAIM, {"devices": {"config": [], "constraints": []}}, {}),
    ],
)
def test_empty_values_equal_absent_ones(kind: str, left: Any, right: Any) -> None:
    assert same(kind, left, right)
    assert same(kind, right, left)


@each_case(
    ("kind", "left", "right"),
    [
        (_CONTAINER, {"securityContext": {}}, {}),
        (_CONTAINER, {"env": [{}]}, {"env": []}),
        (_CONTAINER, {"resources": {"limits": {"cpu": "0"}}}, {"resources": {"limits": {}}}),
        (_POD, {"affinity": {}}, {}),
        (_POD, {"priority": 0}, {}),
        (_POD, {"hostNetwork": True}, {"hostNetwork": False}),
        (_CLAIM, _claim(count=1), _claim(count=2)),
    ],
)
def test_pointers_that_are_set_differ_from_absent_ones(kind: str, left: Any, right: Any) -> None:
    assert not same(kind, left, right)
    assert not same(kind, right, left)


@each_case("other", [1, 1.0, [], {}, None, ""])
def test_opaque_values_are_compared_as_they_are(other: Any) -> None:
    def claim(value: Any) -> dict[str, Any]:
        return {"devices": {"config": [{"opaque": {"driver": "d", "parameters": {"a": value}}}]}}

    assert same(_CLAIM, claim(True), claim(True))
    assert not same(_CLAIM, claim(True), claim(other))


def test_only_the_named_members_are_compared_and_empty_lists_equal_absent_ones() -> None:
    assert same_members(_CONTAINER, {"name": "a", "env": []}, {"name": "b"}, "env", "args")
    assert not same_members(_CONTAINER, {"name": "a"}, {"name": "b"}, "env", "name")
    assert same_items(_CONTAINER, [{"name": "a", "ports": []}], [{"name": "a"}])
    assert not same_items(_CONTAINER, [{"name": "a"}], None)


def test_fields_that_only_older_versions_have_are_compared_by_type() -> None:
    # The field was removed from PodSpec after 1.36.
    assert same(_POD, {"workloadRef": {"name": "w", "podGroup": ""}}, {"workloadRef": {"name": "w"}})
