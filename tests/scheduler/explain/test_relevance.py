"""Pools that no class of the pod's requests can select are left out."""

from dra_shared.jsontypes import JsonObject

from tests.scheduler.explain.worlds import devices, driver_class, explain, text_of
from tests.scheduler.objects import DRIVER, claim_json, node_json, pod_json

_NIC = "nic.example.com"
_POD = pod_json("p", claims={"gpu": "c"})


def _gpus(node: str, **more: object) -> JsonObject:
    return devices(node, {"name": "g0", **more}, {"name": "g1", **more})


def _nics(node: str) -> JsonObject:
    return devices(node, {"name": "nic0"}, driver=_NIC)


def test_only_pools_that_a_class_can_select_are_listed() -> None:
    world = [
        node_json("a"),
        _gpus("a"),
        _nics("a"),
        driver_class("gpu"),
        claim_json("c", request={"count": 3}),
    ]
    report = explain("p", *world, _POD)
    assert [pool.driver for pool in report.nodes[0].pools] == [DRIVER]
    assert not any("nic0" in line for line in text_of(report))


def test_a_node_without_devices_of_the_class_lists_no_pool() -> None:
    world = [node_json("a"), node_json("b"), _gpus("a"), _nics("b"), driver_class("gpu")]
    report = explain("p", *world, claim_json("c", request={"count": 3}), _POD)
    [b] = [node for node in report.nodes if node.node == "b"]
    assert b.pools == ()
    assert b.silent_drivers == (DRIVER,)
    assert f"driver {DRIVER} publishes no devices for this node" in text_of(report)
    assert "no device of the class on this node" in text_of(report)


def test_the_pools_of_a_classs_driver_are_listed_if_the_class_selects_no_device() -> None:
    never = driver_class("gpu", also="false")
    report = explain("p", node_json("a"), _gpus("a"), _nics("a"), never, claim_json("c"), _POD)
    assert [pool.driver for pool in report.nodes[0].pools] == [DRIVER]
    assert len(report.nodes[0].requests[0].devices) == 2


def test_an_incomplete_pool_is_listed_unless_the_class_is_for_another_driver() -> None:
    world = [node_json("a"), _gpus("a"), _nics("a"), driver_class("gpu")]
    for piece in world[1:3]:
        piece["spec"]["pool"]["resourceSliceCount"] = 2
    report = explain("p", *world, claim_json("c"), _POD)
    assert [(pool.driver, bool(pool.problem)) for pool in report.nodes[0].pools] == [(DRIVER, True)]


def test_devices_that_are_published_for_a_node_that_does_not_exist_are_named() -> None:
    report = explain("p", node_json("a"), _gpus("gone"), driver_class("gpu"), claim_json("c"), _POD)
    assert report.shortfalls == (
        f"class gpu: no node can reach its 2 devices: pool {DRIVER}/gone is for node gone, which does not exist",
    )


def test_devices_of_an_outdated_generation_are_named() -> None:
    newer = devices("b", {"name": "other"}, pool="a")
    newer["spec"]["pool"]["generation"] = 2
    older = _gpus("a")
    older["spec"]["pool"]["resourceSliceCount"] = 2
    world = [node_json("a"), newer, older, driver_class("gpu"), claim_json("c", request={"count": 9})]
    report = explain("p", *world, _POD)
    text = f"pool {DRIVER}/a has generation 2 by now, and these slices are of generation 1"
    assert any(text in each for each in report.shortfalls)
