"""Cases of the eviction controller that upstream's tests do not cover."""

from datetime import timedelta
from typing import Any

import pytest
from dra_controller.devicetainteviction.model import PodRef, Work
from dra_controller.devicetainteviction.state import EvictionState, selects
from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.client.store import Store
from dra_shared.clock import FakeClock, parse_rfc3339
from msgspec.structs import replace

_NOW = "2026-01-01T00:00:00Z"
_REF = PodRef("default", "pod", "pod-uid")


def _claim(*tolerations: dict[str, Any]) -> Any:
    result = {
        "request": "gpu",
        "driver": "d",
        "pool": "p",
        "device": "gpu-0",
        "tolerations": list(tolerations),
    }
    return convert(
        RESOURCE_CLAIMS,
        {
            "metadata": {
                "name": "claim",
                "namespace": "default",
                "uid": "claim-uid",
                "ownerReferences": [
                    {"kind": "Pod", "apiVersion": "v1", "uid": "pod-uid", "controller": True}
                ],
            },
            "status": {
                "allocation": {"devices": {"results": [result]}},
                "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-uid"}],
            },
        },
    )


def _slice(generation: int = 1, *, tainted: bool = True, name: str = "slice") -> Any:
    taint = {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": _NOW}
    device = {"name": "gpu-0", "taints": [taint] if tainted else []}
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    return convert(
        RESOURCE_SLICES,
        {"metadata": {"name": name}, "spec": {"driver": "d", "pool": pool, "devices": [device]}},
    )


def _pod(**status: Any) -> Pod:
    pod: Pod = convert(
        PODS,
        {
            "metadata": {"name": "pod", "namespace": "default", "uid": "pod-uid"},
            "spec": {"nodeName": "n1"},
            "status": status,
        },
    )
    return pod


def _rule(**selector: str) -> Any:
    taint = {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": _NOW}
    return convert(
        DEVICE_TAINT_RULES,
        {"metadata": {"name": "rule", "uid": "rule"}, "spec": {"deviceSelector": selector, "taint": taint}},
    )


class _World:
    def __init__(self, any_effect: bool = False) -> None:
        self.pods: Store[Pod] = Store()
        self.work: list[Work] = []
        self.cancelled: list[PodRef] = []
        clock = FakeClock(parse_rfc3339(_NOW))
        self.state = EvictionState(
            self.pods,
            clock,
            lambda work, _: self.work.append(work),
            self.cancelled.append,
            pod_groups=False,
            any_effect=any_effect,
        )

    def add(self, pod: Pod) -> None:
        self.pods.put(pod)
        self.state.pod_changed(None, pod)


def test_pods_that_use_devices_for_extended_resources_are_evicted() -> None:
    world = _World()
    world.add(_pod(extendedResourceClaimStatus={"resourceClaimName": "claim", "requestMappings": []}))
    world.state.claim_changed(None, _claim())
    world.state.slice_changed(None, _slice())
    assert _REF in world.state.evictions


def test_an_empty_selector_selects_all_devices_and_a_missing_selector_none() -> None:
    assert selects(_rule(device="gpu-0"), "d", "p", "gpu-0")
    assert selects(_rule(), "d", "p", "gpu-0")
    missing = _rule()
    missing = replace(missing, spec=replace(missing.spec, device_selector=None))
    assert not selects(missing, "d", "p", "gpu-0")


@pytest.mark.parametrize("missing", [False, True])
def test_a_rule_evicts_all_pods_with_an_empty_selector_and_none_without_a_selector(missing: bool) -> None:
    world = _World()
    world.add(_pod(extendedResourceClaimStatus={"resourceClaimName": "claim", "requestMappings": []}))
    world.state.claim_changed(None, _claim())
    world.state.slice_changed(None, _slice(tainted=False))
    rule = _rule()
    if missing:
        rule = replace(rule, spec=replace(rule.spec, device_selector=None))
    world.state.rule_changed(None, rule)
    assert (_REF in world.state.evictions) is not missing
    assert world.state.count_selected(rule) == ((0, 0) if missing else (1, 1))


def test_slices_of_an_older_generation_are_ignored() -> None:
    world = _World()
    world.add(_pod(extendedResourceClaimStatus={"resourceClaimName": "claim"}))
    world.state.claim_changed(None, _claim())
    world.state.slice_changed(None, _slice(1))
    assert _REF in world.state.evictions
    world.state.slice_changed(None, _slice(2, tainted=False, name="newer"))
    assert _REF not in world.state.evictions
    assert world.cancelled == [_REF]


def test_the_shortest_toleration_determines_the_time_of_the_eviction() -> None:
    world = _World()
    world.add(_pod(extendedResourceClaimStatus={"resourceClaimName": "claim"}))
    tolerations = [
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} for seconds in (300, 60)
    ]
    world.state.claim_changed(None, _claim(*tolerations))
    world.state.slice_changed(None, _slice())
    assert world.state.evictions[_REF].when == parse_rfc3339(_NOW) + timedelta(seconds=60)


def test_a_toleration_with_a_huge_duration_is_accepted() -> None:
    world = _World()
    world.add(_pod(extendedResourceClaimStatus={"resourceClaimName": "claim"}))
    world.state.claim_changed(
        None, _claim({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**62})
    )
    world.state.slice_changed(None, _slice())
    assert world.state.evictions[_REF].when.year == 9999


def test_a_toleration_without_effect_delays_no_eviction() -> None:
    """Follows kube-controller-manager 1.36. In the scheduler, such a toleration tolerates every effect."""
    world = _World()
    world.add(_pod(extendedResourceClaimStatus={"resourceClaimName": "claim"}))
    world.state.claim_changed(None, _claim({"operator": "Exists", "tolerationSeconds": 600}))
    world.state.slice_changed(None, _slice())
    assert world.state.evictions[_REF].when == parse_rfc3339(_NOW)


@pytest.mark.parametrize("since_1_38", [False, True])
def test_toleration_without_effect_covers_no_execute_since_1_38(since_1_38: bool) -> None:
    world = _World(any_effect=since_1_38)
    world.add(_pod(extendedResourceClaimStatus={"resourceClaimName": "claim"}))
    world.state.claim_changed(None, _claim({"operator": "Exists"}))
    world.state.slice_changed(None, _slice())
    assert (_REF in world.state.evictions) is not since_1_38
