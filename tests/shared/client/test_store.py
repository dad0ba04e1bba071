from dra_shared.api.core import ConfigMap
from dra_shared.api.meta import ObjectMeta
from dra_shared.client.store import Store


def _config(name: str, **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns", labels=labels))


def test_store_indexes_are_updated_when_objects_change() -> None:
    store: Store[ConfigMap] = Store()
    store.put(_config("a", team="red"))
    store.add_index("team", lambda obj: obj.metadata.labels.values())
    store.put(_config("b", team="red"))
    assert {obj.key for obj in store.by_index("team", "red")} == {"ns/a", "ns/b"}
    store.put(_config("a", team="blue"))
    assert [obj.key for obj in store.by_index("team", "red")] == ["ns/b"]
    store.pop("ns/b")
    assert not store.by_index("team", "red")
    assert [obj.key for obj in store.by_index("team", "blue")] == ["ns/a"]
