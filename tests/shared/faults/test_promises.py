"""Test the verdict whether a fault kept its promises, based on samples of the cluster."""

import msgspec
import pytest
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.promises import judge
from dra_shared.faults.story import Sample, Story

from tests.shared.faults.samples import claim, node, pod, sample, slices_of


def _find_broken(
    fault: str, before: Sample, during: list[Sample], after: Sample, seconds: float = 5
) -> list[str]:
    return judge(Story(fault, seconds, "node-0", before, during, after)).broken


def test_each_fault_has_a_different_promise() -> None:
    assert all(kind.promise and kind.parts for kind in KINDS.values())


def test_each_flag_of_a_fault_sets_a_field_of_its_request() -> None:
    for kind in KINDS.values():
        assert {flag.field for flag in kind.flags} == {*kind.options} - {"service", "node"}


def test_the_verdict_lists_the_kept_parts_of_a_promise() -> None:
    calm = sample(pod(), claim("c", "gpu-0"), slices_of("gpu-0"), node())
    verdict = judge(Story("clock-ahead", 5, "node-0", calm, [calm], calm))
    assert verdict.kept == [
        "the node stayed Ready",
        "containers kept running",
        "claims kept their devices",
    ]
    assert (verdict.broken, verdict.untried) == ([], [])


@pytest.mark.parametrize(
    ("fault", "untried"),
    [
        ("ecc", ["no container ran", "no claim had devices"]),
        ("kubelet-stop", ["no container ran", "no claim had devices", "there was no claim"]),
        ("two-schedulers", ["no pod was scheduled meanwhile", "no container ran", "no claim had devices"]),
        (
            "driver-crash",
            ["node-0 has no devices", "no container ran", "no claim had devices", "there was no claim"],
        ),
    ],
)
def test_an_untested_promise_is_not_reported_as_kept(fault: str, untried: list[str]) -> None:
    empty = sample(node())
    verdict = judge(Story(fault, 5, "node-0", empty, [empty], empty))
    assert (verdict.kept, verdict.broken, verdict.untried) == ([], [], untried)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("driver-slow", "no call was made to a driver meanwhile"),
        ("error", "it affected no request"),
        ("watch-cut", "no watch was open"),
        ("disk-full", "nothing was written meanwhile"),
    ],
)
def test_a_fault_without_effect_tests_no_promise(fault: str, reason: str) -> None:
    calm = sample(pod(), claim("c", "gpu-0"), slices_of("gpu-0"), node())
    verdict = judge(Story(fault, 5, "node-0", calm, [calm], calm, met=0))
    assert (verdict.kept, verdict.broken, verdict.untried) == ([], [], [reason])
    met = judge(Story(fault, 5, "node-0", calm, [calm], calm, met=1))
    assert met.kept
    assert met.untried == []


def test_a_short_fault_leaves_promises_about_slow_reactions_untested() -> None:
    calm = sample(pod(), claim("c", "gpu-0"), slices_of("gpu-0"), node())
    short = judge(Story("xid", 1, "node-0", calm, [calm], calm))
    assert "no taint was seen in so short a time" in short.untried
    assert "no claim was given devices meanwhile" in short.untried
    silent = judge(Story("node-silent", 5, "node-0", calm, [calm], calm))
    assert silent.untried == ["node-0 was not silent for the 40 seconds that make it NotReady"]


def test_a_pod_bound_to_two_nodes_breaks_the_promise() -> None:
    first, second = pod(), pod()
    moved = msgspec.structs.replace(second, spec=msgspec.structs.replace(second.spec, node_name="node-1"))
    story = Story("two-schedulers", 5, "", sample(first), [sample(moved)], sample(moved))
    assert judge(story).broken == ["pod a/p was bound to node node-0 and later to node-1"]


def test_only_bound_pods_use_a_device_of_two_claims() -> None:
    late = msgspec.structs.replace(pod("q"), spec=msgspec.structs.replace(pod("q").spec, node_name=""))
    claims = claim("c", "gpu-0"), claim("d", "gpu-0", "q")
    before = sample(pod())
    assert _find_broken("two-schedulers", before, [sample(pod(), late, *claims)], before) == []
    assert _find_broken("two-schedulers", before, [sample(pod(), pod("q"), *claims)], before) == [
        "device d/node-0/gpu-0 belongs to a/c and a/d"
    ]


def test_an_ecc_fault_breaks_its_promise_if_containers_restart_or_pods_are_gone() -> None:
    before = sample(pod("p"), pod("q"), pod("r"))
    evicted = pod("q", deletionTimestamp="2026-01-01T00:00:00Z")
    gone = sample(pod("p", restarts=1), evicted)
    assert _find_broken("ecc", before, [gone], sample(pod("p", restarts=1))) == [
        "containers of pod a/p were restarted",
        "pod a/r is gone",
    ]


def test_changed_or_duplicate_claims_break_the_promise() -> None:
    before = sample(claim("c", "gpu-0"))
    after = sample(claim("c", "gpu-1"), claim("d", "gpu-1"))
    assert _find_broken("driver-reset", before, [], after) == [
        "claim a/c has other devices than before",
        "device d/node-0/gpu-1 belongs to a/c and a/d",
    ]


def test_a_lost_write_breaks_the_promise() -> None:
    assert _find_broken("kill", sample(pod(revision="7")), [], sample(pod(revision="6"))) == [
        "p is as it was before its revision 7"
    ]


def test_a_device_that_fails_is_tainted_and_avoided_until_it_works_again() -> None:
    good, bad = slices_of("gpu-0", "gpu-1"), slices_of("gpu-0", "gpu-1", tainted="gpu-0")
    before, tainted = sample(good), sample(bad)
    assert _find_broken("xid", before, [tainted], before) == []
    assert _find_broken("xid", before, [before], before) == ["no device of node-0 was tainted"]
    assert _find_broken("xid", before, [tainted], tainted) == ["device d/node-0/gpu-0 is still tainted"]
    given = sample(bad, claim("new", "gpu-0"))
    assert _find_broken("xid", before, [tainted, given], before) == [
        "claim a/new was given the tainted device gpu-0"
    ]
    # Containers on that node need not continue.
    held = sample(good, pod(), claim("c", "gpu-0"))
    failed = sample(bad, pod(phase="Failed"), claim("c", "gpu-0"))
    assert _find_broken("xid", held, [failed], sample(good, pod(phase="Failed"), claim("c", "gpu-0"))) == []


def test_slices_that_are_not_published_again_break_the_promise() -> None:
    before = sample(slices_of("gpu-0", "gpu-1"))
    assert _find_broken("driver-crash", before, [], sample(slices_of("gpu-0"))) == [
        "1 device of node-0 is not published again, such as gpu-1"
    ]


def test_readiness_of_silent_and_deleted_nodes_is_checked() -> None:
    ready, late = sample(node()), sample(node(ready="Unknown"), at=42)
    assert _find_broken("node-silent", ready, [ready, late], ready, 60) == []
    assert _find_broken("node-silent", ready, [ready], ready, 60) == ["node node-0 stayed Ready"]
    hasty = sample(node(ready="Unknown"), at=3)
    assert _find_broken("node-silent", ready, [hasty], ready, 5) == [
        "node node-0 was NotReady after 3.0 s already"
    ]
    assert _find_broken("node-gone", ready, [sample()], sample(node("again"))) == []
    assert _find_broken("node-gone", ready, [ready], sample()) == [
        "node node-0 is not registered again",
        "node node-0 was never gone",
    ]
    assert _find_broken("clock-ahead", ready, [late], ready) == ["node node-0 was NotReady after 42.0 s"]


def test_a_reboot_gives_another_boot_id_and_restarts_containers() -> None:
    before = sample(pod(), node(boot="first"))
    after = sample(pod(restarts=1), node(boot="second"))
    assert _find_broken("reboot", before, [sample(node(ready="Unknown"))], after) == []
    assert _find_broken("reboot", before, [], sample(pod(phase="Failed"), node(boot="second"))) == [
        "pod a/p ran, and is Failed"
    ]
    assert _find_broken("reboot", before, [], before) == [
        "node node-0 has the same boot id as before",
        "containers of pod a/p were not restarted",
    ]
    assert _find_broken(
        "reboot", before, [], sample(pod(restarts=1), node(boot="second", ready="False"))
    ) == ["node node-0 is not Ready again"]
