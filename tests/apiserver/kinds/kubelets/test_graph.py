"""Test that the graph of objects that nodes may read is rebuilt when a collection is replaced without events."""

from collections import defaultdict
from typing import Any, cast

import orjson
from dra_apiserver.kinds.kubelets.graph import SECRET, Graph
from dra_apiserver.storage import Store
from dra_apiserver.storage.collection import Collection
from dra_apiserver.storage.records import Record


class _Store:
    def __init__(self) -> None:
        self.collections: dict[Any, Collection] = defaultdict(lambda: Collection(0))

    def collection(self, resource: tuple[str, str]) -> Collection:
        return self.collections[resource]


def _pod(name: str, node: str, secret: str) -> Record:
    volumes = [{"name": "v", "secret": {"secretName": secret}}]
    pod = {"metadata": {"namespace": "default", "name": name}, "spec": {"nodeName": node, "volumes": volumes}}
    return Record(f"default/{name}", 1, orjson.dumps(pod))


def test_the_node_graph_is_rebuilt_after_a_collection_is_replaced() -> None:
    store = _Store()
    pods = store.collection(("", "pods"))
    pods.load([_pod("a", "n1", "one"), _pod("b", "n1", "one"), _pod("c", "n2", "two")])
    graph = Graph(cast(Store, store))

    def list_related() -> list[tuple[str, str]]:
        known = [(node, name) for node in ("n1", "n2") for name in ("one", "two", "three")]
        return [(node, name) for node, name in known if graph.is_related(node, SECRET, "default", name)]

    assert list_related() == [("n1", "one"), ("n2", "two")]
    pods.reset([_pod("b", "n1", "one"), _pod("c", "n1", "three")], 5)
    assert list_related() == [("n1", "one"), ("n1", "three")]
    pods.reset([_pod("c", "n1", "three")], 6)
    assert list_related() == [("n1", "three")]
