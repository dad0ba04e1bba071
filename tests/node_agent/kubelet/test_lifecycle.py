"""The lifecycle of a pod on its node moves forward only."""

import pytest
from dra_node_agent.kubelet.lifecycle import LIFECYCLE, PodEvent, PodState, new_lifecycle
from dra_node_agent.runtime.base import RuntimeFailure
from dra_shared.api.resources import EVENTS
from dra_shared.clock import settle
from dra_shared.states import ImpossibleTransition

from tests.support.cases import each_case
from tests.support.kubelet.bench import Bench, claim, pod
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until


def test_the_state_machine_of_a_pod_has_no_transition_back() -> None:
    order = list(PodState)
    assert list(LIFECYCLE) == order
    for state, events in LIFECYCLE.items():
        assert all(order.index(following) > order.index(state) for following in events.values())


@each_case("state", PodState)
def test_every_state_of_a_pod_can_lead_to_its_removal(state: PodState) -> None:
    while LIFECYCLE[state]:
        state = list(LIFECYCLE[state].values())[-1]
    assert state is PodState.REMOVED


def test_claims_are_not_unprepared_while_containers_run() -> None:
    life = new_lifecycle()
    for event in (PodEvent.ADMIT, PodEvent.PREPARE, PodEvent.CREATE_SANDBOX, PodEvent.TERMINATE):
        life.on(event)
    with pytest.raises(ImpossibleTransition):
        life.on(PodEvent.UNPREPARE)


async def test_a_sandbox_that_cannot_be_removed_is_removed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bench() as bench:
        bench.create(pod())
        await until(lambda: bench.phase() == "Running")
        remove, failures = bench.runtime.remove_sandbox, [RuntimeFailure("Busy", "try again")]

        async def fail_once(pod_uid: str) -> None:
            if failures:
                raise failures.pop()
            await remove(pod_uid)

        monkeypatch.setattr(bench.runtime, "remove_sandbox", fail_once)
        bench.force_delete("pod")
        await until(lambda: not failures)
        await bench.clock.advance(2)
        await until(lambda: not bench.kubelet.pods())
        assert not [record for record in bench.runtime.containers() if record.pod_uid == "pod-uid"]
        assert not (bench.root / "pods" / "pod-uid").exists()


async def test_a_pod_that_exceeded_its_active_deadline_is_stopped_once() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod"))
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        bench.create(pod(resourceClaims=claims, activeDeadlineSeconds=5))
        await until(lambda: bench.phase() == "Running")
        driver.errors["gpu-uid"] = "device is busy"
        await bench.clock.advance(6)
        await until(lambda: driver.calls[-1][0] == "NodeUnprepareResources")
        tries = len(driver.calls)
        await until(lambda: len(driver.calls) > tries, clock=bench.clock)
        assert bench.phase() == "Running"
        driver.errors.clear()
        await until(lambda: bench.phase() == "Failed", clock=bench.clock)
        await settle(50)
        events = [event for event in bench.api.find_all(EVENTS) if event.reason == "DeadlineExceeded"]
        assert [event.count for event in events] == [1]
