"""Nominated pods and the room that is reserved for them."""

from dra_scheduler.framework.nominations import Nominations
from dra_shared.api.pod import Pod

from tests.scheduler.objects import pod


def _pod(name: str, priority: int) -> Pod:
    return pod(name, priority=priority)


def test_resources_are_reserved_for_nominated_pods_of_equal_or_higher_priority() -> None:
    changed: list[str] = []
    nominations = Nominations(changed.append)
    mid, high = _pod("mid", 5), _pod("high", 10)
    nominations.set(mid, "a")
    nominations.set(high, "a")
    assert nominations.ahead_of(_pod("low", 1), "a") == [mid, high]
    assert nominations.ahead_of(_pod("equal", 5), "a") == [mid, high]
    assert nominations.ahead_of(mid, "a") == [high]
    assert nominations.ahead_of(_pod("higher", 11), "a") == []
    assert nominations.ahead_of(_pod("low", 1), "b") == []
    assert changed == ["a", "a"]


def test_a_pod_is_nominated_for_at_most_one_node() -> None:
    changed: list[str] = []
    nominations = Nominations(changed.append)
    one = _pod("p", 5)
    nominations.set(one, "a")
    nominations.set(one, "b")
    assert nominations.node_of(one.metadata.uid) == "b"
    assert nominations.ahead_of(_pod("low", 1), "a") == []
    nominations.set(one, "")
    nominations.delete(one.metadata.uid)
    assert (len(nominations), nominations.node_of(one.metadata.uid)) == (0, "")
    assert changed == ["a", "a", "b", "b"]
