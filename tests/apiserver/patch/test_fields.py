"""Test the human-readable list of changed fields."""

from typing import Any

from dra_apiserver.kinds.catalog import KINDS
from dra_apiserver.patch.fields import changed_fields

from tests.support.cases import each_case

PODS = next(kind for kind in KINDS if (kind.group, kind.plural) == ("", "pods"))


def _pod(**members: Any) -> dict[str, Any]:
    metadata = {
        "name": "p",
        "resourceVersion": str(id(members)),
        "managedFields": [{"manager": str(members)}],
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **members}


@each_case(
    ("old", "new", "changes"),
    [
        ({}, {}, []),
        ({"spec": {"nodeName": "a"}}, {"spec": {"nodeName": "b"}}, [(".spec.nodeName", "a", "b")]),
        ({"status": {}}, {"status": {"podIP": "1.2.3.4"}}, [(".status.podIP", None, "1.2.3.4")]),
        ({"status": {"podIP": "1.2.3.4"}}, {"status": {}}, [(".status.podIP", "1.2.3.4", None)]),
        (
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]
                }
            },
            {
                "status": {
                    "conditions": [{"type": "X", "status": "True"}, {"type": "Ready", "status": "True"}]
                }
            },
            [('.status.conditions[type="Ready"].status', "False", "True")],
        ),
        (
            {"spec": {"containers": [{"name": "a"}]}},
            {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "i"}]}},
            [('.spec.containers[name="b"]', None, {"name": "b", "image": "i"})],
        ),
        (
            {"spec": {"containers": [{"name": "a", "command": ["x"]}]}},
            {"spec": {"containers": [{"name": "a", "command": ["x", "y"]}]}},
            [('.spec.containers[name="a"].command', ["x"], ["x", "y"])],
        ),
    ],
)
def test_changed_fields_have_both_values(old: Any, new: Any, changes: list[tuple[Any, ...]]) -> None:
    assert [tuple(change) for change in changed_fields(PODS, "v1", _pod(**old), _pod(**new))] == changes


def test_changed_members_of_sets_are_listed() -> None:
    old, new = ({"metadata": {"name": "p", "finalizers": found}} for found in (["a", "b"], ["b", "c"]))
    assert [tuple(change) for change in changed_fields(PODS, "v1", old, new)] == [
        ('.metadata.finalizers[="a"]', "a", None),
        ('.metadata.finalizers[="c"]', None, "c"),
    ]
