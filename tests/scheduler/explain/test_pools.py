"""Pools that two nodes publish, and allocated devices that no slice publishes any more."""

from dra_scheduler.config import SchedulerConfig
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

from tests.scheduler.explain.worlds import devices, driver_class, explain, simulation, text_of
from tests.scheduler.objects import DRIVER, claim_json, node_json, pod_json

_POD = pod_json("p", claims={"gpu": "c"})


def _holder(name: str, pool: str, device: str, driver: str = DRIVER) -> JsonObject:
    claim = claim_json(name)
    result = {"request": "gpu", "driver": driver, "pool": pool, "device": device}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": f"pod-of-{name}", "uid": "u"}],
    }
    return claim


def _nics(node: str, *names: str) -> JsonObject:
    return devices(node, *({"name": name} for name in names), pool="nics")


def test_two_nodes_that_publish_one_pool_with_equal_device_names_get_a_warning() -> None:
    world = [node_json("a"), node_json("b"), driver_class("gpu"), claim_json("c", request={"count": 3})]
    report = explain("p", *world, _nics("a", "nic0", "nic1"), _nics("b", "nic0", "nic1"), _POD)
    warning = (
        "the same pool with the same device names (nic0..1) is published for node b, too: "
        "a claim that holds such a device holds it on all of them"
    )
    [a] = [node for node in report.nodes if node.node == "a"]
    assert a.pools[0].warning == warning
    assert warning in text_of(report)


def test_a_pool_that_is_published_twice_for_node_selectors_gets_a_warning() -> None:
    pieces = []
    for zone in ("x", "y"):
        piece = _nics(zone, "nic0")
        requirement = {"key": "zone", "operator": "In", "values": [zone]}
        piece["spec"] |= {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
        del piece["spec"]["nodeName"]
        pieces.append(piece)
        # The nodes of each zone see one of the two slices.
        piece["spec"]["pool"]["resourceSliceCount"] = 1
    nodes = [node_json(zone, labels={"zone": zone}) for zone in ("x", "y")]
    claim = claim_json("c", request={"count": 3})
    report = explain("p", *nodes, driver_class("gpu"), claim, *pieces, _POD)
    warnings = {pool.warning for node in report.nodes for pool in node.pools}
    assert warnings == {
        "published for nodes with zone In [x] and nodes with zone In [y] with the same device names (nic0): "
        "a claim that holds such a device holds it on all of them"
    }


def test_nodes_that_publish_different_devices_of_one_pool_get_no_warning() -> None:
    world = [node_json("a"), node_json("b"), driver_class("gpu"), claim_json("c", request={"count": 3})]
    report = explain("p", *world, _nics("a", "nic0"), _nics("b", "nic1"), _POD)
    assert [pool.warning for node in report.nodes for pool in node.pools] == ["", ""]


def test_an_allocated_device_that_is_no_longer_published_is_named() -> None:
    world = [node_json("a"), devices("a", {"name": "g0"}), driver_class("gpu")]
    gone = [_holder("one", "a", "g1"), _holder("two", "left", "g0")]
    other = _holder("nic", "a", "nic0", "nic.example.com")
    report = explain("p", *world, *gone, other, claim_json("c", request={"count": 2}), _POD)
    assert [(held.device, held.claims, held.pods) for held in report.unpublished] == [
        (f"{DRIVER}/a/g1", ("default/one",), ("pod-of-one",)),
        (f"{DRIVER}/left/g0", ("default/two",), ("pod-of-two",)),
    ]
    line = "no ResourceSlice publishes device gpu.example.com/a/g1 any more, which claim default/one holds (pod-of-one)"
    assert line in text_of(report)


def test_a_scheduled_pod_names_its_devices_that_are_no_longer_published() -> None:
    world = [node_json("a"), devices("a", {"name": "g0"}), driver_class("gpu")]
    pod = pod_json("p", claims={"gpu": "mine"}, nodeName="a")
    report = explain("p", *world, _holder("mine", "a", "g7"), _holder("other", "a", "g8"), pod)
    assert [held.device for held in report.unpublished] == [f"{DRIVER}/a/g7"]


def test_a_claim_that_is_allocated_on_another_node_names_that_node() -> None:
    claim = _holder("c", "a", "g0")
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    world = [node_json("b"), devices("a", {"name": "g0"}), driver_class("gpu"), claim]
    report = explain("p", node_json("a", unschedulable=True), *world, _POD)
    assert report.shortfalls == ()
    [b] = [node for node in report.nodes if node.node == "b"]
    assert b.saw["DynamicResources"] == (
        "claim default/c has gpu.example.com/a/g0, for nodes with metadata.name In [a] only",
    )
    gone = explain("p", *world, _POD)
    assert gone.shortfalls == (
        "claim default/c is allocated for nodes with metadata.name In [a], and there is none",
    )


def test_an_unused_claim_names_its_devices_that_are_no_longer_published() -> None:
    world = simulation(node_json("a"), devices("a", {"name": "g0"}), _holder("one", "a", "g1"))
    report = world.scheduler.explainer.claim("default", "one")
    assert report is not None
    assert [held.device for held in report.unpublished] == [f"{DRIVER}/a/g1"]
    world.close()


def test_a_cluster_without_published_devices_is_reported_once() -> None:
    report = explain("p", node_json("a"), driver_class("gpu"), claim_json("c"), _POD)
    assert report.shortfalls == ("no ResourceSlice publishes any device",)


def test_values_of_different_types_with_equal_text_are_distinguished() -> None:
    claim = claim_json("c", request={"count": 2}, constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    pair = [
        {"name": "g0", "attributes": {"numa": {"int": 1}}},
        {"name": "g1", "attributes": {"numa": {"string": "1"}}},
    ]
    report = explain("p", node_json("a"), devices("a", *pair), driver_class("gpu"), claim, _POD)
    details = [part for device in report.nodes[0].requests[0].devices for part in device.details]
    values = {part.values for part in details if part.kind == "constraintUnmet"}
    assert values == {"is 1 (string), others have 1 (int)"}


def test_list_that_a_constraint_cannot_compare_is_not_called_missing() -> None:
    claim = claim_json("c", request={"count": 2}, constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    pair = [{"name": name, "attributes": {"numa": {"ints": [1, 2]}}} for name in ("g0", "g1")]
    config = SchedulerConfig(gates=FeatureGates(V1_37, DRAListTypeAttributes=False))
    world = [node_json("a"), devices("a", *pair), driver_class("gpu"), claim]
    report = explain("p", *world, _POD, config=config)
    detail, _ = report.nodes[0].requests[0].devices[0].details
    assert detail.gist == (
        f"constraint #0: the attribute {DRIVER}/numa is a list, "
        "which constraints compare only with the feature DRAListTypeAttributes"
    )
