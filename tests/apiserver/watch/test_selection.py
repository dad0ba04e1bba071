"""Test which event a watch with a selector sends for a change."""

from typing import Any

import orjson
from dra_apiserver.kinds import catalog
from dra_apiserver.storage import ADDED, DELETED, MODIFIED, Collection, Event, Record
from dra_apiserver.watch import Selection
from dra_shared.fieldselectors import parse_field_selector
from dra_shared.selectors import parse_label_selector

from tests.support.cases import each_case


def record(revision: int, node: str = "", **labels: str) -> Record:
    obj: dict[str, Any] = {"metadata": {"name": "p", "namespace": "ns", "labels": labels}, "spec": {}}
    if node:
        obj["spec"]["nodeName"] = node
    return Record("ns/p", revision, orjson.dumps(obj))


def selection(labels: str = "", fields: str = "", namespace: str = "") -> Selection:
    kind = catalog.registry().get("", "pods")
    assert kind is not None
    return Selection(kind, namespace, parse_label_selector(labels), parse_field_selector(fields))


A, B = record(1, team="a"), record(2, team="b")


@each_case(
    ("event", "meaning"),
    [
        (Event(ADDED, A, None), ADDED),
        (Event(ADDED, B, None), None),
        (Event(MODIFIED, A, B), ADDED),
        (Event(MODIFIED, B, A), DELETED),
        (Event(MODIFIED, record(3, team="a"), A), MODIFIED),
        (Event(MODIFIED, record(3, team="b"), B), None),
        (Event(DELETED, record(3, team="a"), A), DELETED),
        (Event(DELETED, record(3, team="b"), B), None),
        (Event(DELETED, record(3, team="a"), None), DELETED),
    ],
)
def test_changed_labels_add_and_remove_objects_of_a_selection(event: Event, meaning: str | None) -> None:
    assert selection("team=a").judge(event) == meaning


def test_a_watch_selects_objects_by_fields_and_namespace() -> None:
    bound = Event(MODIFIED, record(2, node="n1"), record(1))
    assert selection(fields="spec.nodeName=n1").judge(bound) == ADDED
    assert selection(fields="spec.nodeName=").judge(bound) == DELETED
    assert selection(fields="spec.nodeName=n2").judge(bound) is None
    assert selection(namespace="ns").judge(bound) == MODIFIED
    assert selection(namespace="n").judge(bound) is None
    assert selection(namespace="ns-2").judge(bound) is None


def test_a_named_object_is_found_by_its_key() -> None:
    assert selection(fields="metadata.name=p", namespace="ns").key == "ns/p"
    assert selection(fields="metadata.name=p,metadata.namespace=ns").key == "ns/p"
    assert selection(fields="metadata.name=p").key is None
    assert selection(fields="metadata.name=p", namespace="ns").filter([A]) == [A]
    assert selection("team=b", "metadata.name=p", "ns").filter([A, B]) == [B]


def test_a_list_by_node_name_reads_only_the_pods_on_that_node() -> None:
    collection = Collection(0)
    pods = [("ns/a", "n1"), ("ns/b", "n2"), ("other/c", "n1")]
    for revision, (key, node) in enumerate(pods, 1):
        collection.apply(Event(ADDED, Record(key, revision, record(revision, node).data), None))
    assert selection(fields="spec.nodeName=n1").keys(collection) == ["ns/a", "other/c"]
    assert selection(fields="spec.nodeName=n1", namespace="ns").keys(collection) == ["ns/a"]
    assert selection(fields="spec.nodeName=n1,metadata.name=p").keys(collection, "ns/a") == ["other/c"]
    assert selection(fields="spec.nodeName!=n1").keys(collection) == ["ns/a", "ns/b", "other/c"]
    assert selection("team=a", namespace="ns").keys(collection) == ["ns/a", "ns/b"]
