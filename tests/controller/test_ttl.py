"""The annotation with the time for which kubelets may cache objects."""

from typing import Any

from dra_controller.framework import Context
from dra_controller.ttl import ANNOTATION, TTLController
from dra_shared.api.codec import convert
from dra_shared.api.resources import NODES
from dra_shared.client.informer import InformerFactory
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from prometheus_client import CollectorRegistry

from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi


def _node(number: int) -> dict[str, Any]:
    meta = {"name": f"n{number}", "uid": str(number), "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}}


@each_case(
    ("most", "left", "seconds"),
    [(1, 1, "0"), (100, 100, "0"), (101, 101, "15"), (101, 90, "15"), (101, 89, "0"), (501, 501, "30")],
)
async def test_the_ttl_annotation_of_nodes_grows_with_the_number_of_nodes(
    most: int, left: int, seconds: str
) -> None:
    api = FakeApi(_node(0))
    informers = InformerFactory(api.client(), FakeClock())
    controller = TTLController(
        Context(api.client(), informers, FakeClock(), FeatureGates(), CollectorRegistry())
    )
    informer = informers.informer(NODES)
    for number in range(most):
        informer._apply(convert(NODES, _node(number)))
    for number in range(left, most):
        informer._remove(f"n{number}", None)
    await controller.reconcile("n0")
    (write,) = api.writes("nodes")
    assert write.body == {"metadata": {"annotations": {ANNOTATION: seconds}}}
    updated = _node(0)
    updated["metadata"] |= {"annotations": {ANNOTATION: seconds}, "resourceVersion": "2"}
    informer._apply(convert(NODES, updated))
    await controller.reconcile("n0")
    assert len(api.writes("nodes")) == 1
