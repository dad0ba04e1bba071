"""The graph of owners."""

from dra_controller.garbagecollector.graph import Graph, Identity
from dra_shared.api.meta import ObjectMeta, OwnerReference

_OWNER = Identity("v1", "Pod", "default", "web", "owner")
_CLAIM = Identity("resource.k8s.io/v1", "ResourceClaim", "default", "web-gpu", "claim")
_REFERENCE = OwnerReference(api_version="v1", kind="Pod", name="web", uid="owner")


def test_an_update_of_a_dependent_does_not_restore_its_deleted_owner() -> None:
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


def test_an_owner_that_was_never_observed_is_looked_up() -> None:
    looks: list[str] = []
    graph = Graph(looks.append, looks.append, lambda _, __: None)
    graph.upsert(_CLAIM, ObjectMeta(uid="claim", owner_references=(_REFERENCE,)))
    assert looks == ["owner"]


def _observe(graph: Graph, identity: Identity, *owners: OwnerReference) -> None:
    graph.upsert(identity, ObjectMeta(uid=identity.uid, owner_references=owners))


def test_only_an_owner_in_another_namespace_is_reported() -> None:
    looks: list[str] = []
    reported: list[str] = []
    graph = Graph(looks.append, looks.append, lambda identity, _: reported.append(identity.uid))
    _observe(graph, _OWNER)
    named = OwnerReference(api_version="v1", kind="Pod", name="other", uid="owner")
    _observe(graph, Identity("v1", "ConfigMap", "default", "a", "misnamed"), named)
    _observe(graph, Identity("v1", "ConfigMap", "elsewhere", "a", "abroad"), _REFERENCE)
    assert looks == ["misnamed", "abroad"]
    assert reported == ["abroad"]


def test_dependents_in_other_namespaces_are_reported_when_their_owner_is_observed() -> None:
    reported: list[str] = []
    graph = Graph(lambda _: None, lambda _: None, lambda identity, _: reported.append(identity.uid))
    _observe(graph, Identity("v1", "ConfigMap", "elsewhere", "a", "abroad"), _REFERENCE)
    _observe(graph, _CLAIM, _REFERENCE)
    _observe(graph, _OWNER)
    assert reported == ["abroad"]


def test_dependents_with_a_wrong_reference_are_processed_when_their_owner_is_removed() -> None:
    """Dependents with the right reference keep an owner that may still be observed."""
    looks: list[str] = []
    graph = Graph(looks.append, looks.append, lambda _, __: None)
    wrong = OwnerReference(api_version="v1", kind="Pod", name="wrong", uid="owner")
    _observe(graph, Identity("v1", "ConfigMap", "default", "a", "mistaken"), wrong)
    _observe(graph, _CLAIM, _REFERENCE)
    looks.clear()
    graph.remove("owner")
    assert looks == ["mistaken"]
    virtual = graph.get("owner")
    assert virtual is not None
    assert virtual.virtual
    assert virtual.identity == _OWNER
    _observe(graph, _OWNER)
    looks.clear()
    graph.remove("owner")
    assert sorted(looks) == ["claim", "mistaken"]
    assert graph.get("owner") is None
