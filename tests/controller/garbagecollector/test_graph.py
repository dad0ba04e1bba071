"""The graph of owners."""

from dra_controller.garbagecollector.graph import Graph, Identity
from dra_shared.api.meta import ObjectMeta, OwnerReference

_OWNER = Identity("v1", "Pod", "default", "web", "owner")
_CLAIM = Identity("resource.k8s.io/v1", "ResourceClaim", "default", "web-gpu", "claim")
_REFERENCE = OwnerReference(api_version="v1", kind="Pod", name="web", uid="owner")


def test_changes_of_a_dependent_do_not_bring_its_gone_owner_back() -> None:
    looks: list[str] = []
    graph = Graph(looks.append, looks.append, lambda _, __: None)
    meta = ObjectMeta(name="web-gpu", namespace="default", uid="claim", owner_references=(_REFERENCE,))
    graph.upsert(_OWNER, ObjectMeta(name="web", namespace="default", uid="owner"))
    graph.upsert(_CLAIM, meta)
    graph.remove("owner")
    assert looks == ["claim"]
    graph.upsert(_CLAIM, meta)
    assert looks == ["claim"]
    assert graph.get("owner") is None


def test_an_owner_never_seen_is_looked_for() -> None:
    looks: list[str] = []
    graph = Graph(looks.append, looks.append, lambda _, __: None)
    graph.upsert(_CLAIM, ObjectMeta(uid="claim", owner_references=(_REFERENCE,)))
    assert looks == ["owner"]
