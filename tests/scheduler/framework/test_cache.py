"""The cache: pods of each node, assumed pods, and changes."""

import msgspec
from dra_scheduler.framework.cache import Cache
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS

from tests.scheduler.objects import node, pod, pod_json


def _on(name: str, node_name: str, **fields: object) -> Pod:
    return pod(name, nodeName=node_name, **fields)


def _changes(cache: Cache, since: tuple[int, int]) -> set[str] | None:
    changed = cache.changed_since(since)
    return None if changed is None else set(changed)


def test_the_change_log_is_in_the_order_of_the_changes() -> None:
    cache, names = Cache(), [f"node-{number}" for number in range(20)]
    position = cache.position
    for name in reversed(names):
        cache.touch(name)
    assert list(cache.changed_since(position) or ()) == names[::-1]


def test_nodes_are_added_and_removed() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.set_node(node("b"))
    assert [info.name for info in cache.nodes()] == ["a", "b"]
    cache.remove_node("a")
    assert [info.name for info in cache.nodes()] == ["b"]
    assert cache.node("a") is None


def test_requests_of_a_nodes_pods_add_up() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.set_pod(_on("p", "a", requests={"cpu": "500m", "memory": "1Gi"}))
    cache.set_pod(_on("q", "a", requests={"cpu": "1"}))
    info = cache.node("a")
    assert info is not None
    assert info.requested == {"cpu": 1500, "memory": 1 << 30}
    cache.remove_pod("uid-p")
    assert info.requested == {"cpu": 1000}
    # Scoring counts containers without requests as small.
    assert info.comparable == {"cpu": 1000, "memory": 200 << 20}


def test_assumed_pod_counts_until_it_is_forgotten() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    assumed = _on("p", "a", requests={"cpu": "1"})
    cache.assume(assumed, "a")
    assert cache.is_assumed("uid-p")
    assert cache.place_of("uid-p") == "a"
    assert cache.forget("uid-p") is assumed
    assert cache.place_of("uid-p") is None
    info = cache.node("a")
    assert info is not None
    assert not info.requested


def test_confirmation_of_an_assumed_pod_changes_nothing() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.assume(_on("p", "a"), "a")
    position = cache.position
    cache.set_pod(_on("p", "a"))
    assert not cache.is_assumed("uid-p")
    assert _changes(cache, position) == set()
    assert cache.forget("uid-p") is None
    assert cache.place_of("uid-p") == "a"


def test_updates_without_effect_on_scheduling_are_not_changes() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.set_pod(_on("p", "a"))
    position = cache.position
    running = _on("p", "a")
    status = msgspec.structs.replace(running.status, phase="Running")
    cache.set_pod(msgspec.structs.replace(running, status=status))
    heartbeat = node("a")
    conditions = msgspec.structs.replace(heartbeat.status, phase="beating")
    cache.set_node(msgspec.structs.replace(heartbeat, status=conditions))
    assert _changes(cache, position) == set()
    cache.set_pod(_on("p", "a", labels={"app": "web"}))
    assert _changes(cache, position) == {"a"}
    position = cache.position
    cache.set_node(node("a", labels={"zone": "z"}))
    cache.set_node(node("b"))
    assert _changes(cache, position) == {"a", "b"}
    cache.touch(None)
    assert _changes(cache, position) is None


def test_change_log_drops_old_entries() -> None:
    cache = Cache()
    start = cache.position
    for _ in range(1 << 18):
        cache.touch("a")
    assert _changes(cache, start) is None
    recent = cache.position
    cache.touch("b")
    assert _changes(cache, recent) == {"b"}


def test_pods_of_a_deleted_node_are_kept_until_they_are_deleted() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.set_pod(_on("p", "a", requests={"cpu": "1"}))
    cache.remove_node("a")
    cache.set_node(node("a"))
    info = cache.node("a")
    assert info is not None
    assert info.requested == {"cpu": 1000}
    cache.remove_node("a")
    cache.remove_pod("uid-p")
    cache.set_node(node("a"))
    info = cache.node("a")
    assert info is not None
    assert not info.pods


def test_a_pod_that_is_resized_counts_with_its_largest_requests() -> None:
    def resized_pod(wanted: str, has: str, allocated: str, reason: str = "") -> Pod:
        body = pod_json("p", requests={"cpu": wanted}, nodeName="a")
        status = {
            "name": "main",
            "resources": {"requests": {"cpu": has}},
            "allocatedResources": {"cpu": allocated},
        }
        body["status"]["containerStatuses"] = [status]
        body["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
        return convert(PODS, body)

    cache = Cache()
    cache.set_node(node("a"))
    info = cache.node("a")
    assert info is not None
    for pod_, cpu in (
        (resized_pod("1", "1", "1"), 1000),
        (resized_pod("3", "1", "1"), 3000),
        (resized_pod("3", "1", "2", "Deferred"), 3000),
        (resized_pod("3", "1", "2", "Infeasible"), 2000),
        (resized_pod("1", "2", "1"), 2000),
        (resized_pod("1", "1", "1"), 1000),
    ):
        cache.set_pod(pod_)
        assert info.requested["cpu"] == cpu
