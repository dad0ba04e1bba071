"""Restart rules of containers, and restarts of all containers."""

from typing import Any

import pytest
from dra_node_agent.kubelet.restarts import should_restart
from dra_shared.api.codec import convert
from dra_shared.api.pod import PodCondition
from dra_shared.api.resources import PODS

from tests.support.kubelet.bench import SLEEPER, Bench, pod
from tests.support.waiting import until


def _rule(action: str, *codes: int, operator: str = "In") -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


@pytest.mark.parametrize(
    ("rules", "code", "again"),
    [
        ([_rule("Restart", 3)], 3, True),
        ([_rule("Restart", 3)], 4, False),
        ([_rule("Restart", 3, operator="NotIn")], 4, True),
        ([_rule("RestartAllContainers", 3)], 3, True),
        ([_rule("Ignored", 3), _rule("Restart", 3)], 3, False),
    ],
)
def test_the_first_matching_restart_rule_is_applied(
    rules: list[dict[str, Any]], code: int, again: bool
) -> None:
    container = {"name": "a", "image": "x", "restartPolicy": "Never", "restartPolicyRules": rules}
    found = convert(PODS, pod("pod", container))
    assert should_restart(found, found.spec.containers[0], code) is again


def _condition(bench: Bench) -> PodCondition | None:
    found = bench.pod()
    conditions = found.status.conditions if found is not None else ()
    return next((entry for entry in conditions if entry.type == "AllContainersRestarting"), None)


async def test_all_containers_are_restarted_by_a_rule() -> None:
    reasons: list[str] = []
    async with Bench() as bench:

        def watch(event: str, resource: str, obj: dict[str, Any]) -> None:
            follow(event, resource, obj)
            condition = _condition(bench)
            if condition is not None and condition.reason not in reasons[-1:]:
                reasons.append(condition.reason)

        follow, bench.api.on_write = bench.api.on_write, watch
        main = {
            "name": "main",
            "image": "x",
            "command": ["sh", "-c", "sleep 5; exit 42"],
            "restartPolicy": "Never",
            "restartPolicyRules": [_rule("RestartAllContainers", 42)],
        }
        other = {"name": "other", "image": "x", "command": SLEEPER}
        init = {"name": "init", "image": "x", "command": ["true"]}
        bench.create(pod("pod", main, other, initContainers=[init], restartPolicy="Never"))
        await until(lambda: bench.phase() == "Running")
        condition = _condition(bench)
        assert condition is not None
        assert condition.status == "False"
        first = {record.name: record.id for record in bench.kubelet.records("pod-uid")}

        await bench.clock.advance(6)
        await until(lambda: len(bench.kubelet.records("pod-uid")) == 3 and bench.phase() == "Running")

        def counts() -> list[int]:
            found = bench.pod()
            assert found is not None
            status = found.status
            return [
                entry.restart_count
                for entry in (*status.init_container_statuses, *status.container_statuses)
                if entry.last_state.terminated is not None
                and entry.last_state.terminated.reason == "RestartingAllContainers"
            ]

        await until(lambda: counts() == [1, 1, 1])
        assert not first.items() & {r.name: r.id for r in bench.kubelet.records("pod-uid")}.items()
        assert [entry for entry in reasons if entry] == ["RestartAllContainersStarted"]
        assert ("Killing", "killing") in await bench.events()
        found = bench.pod()
        assert found is not None
        initialized = next(entry for entry in found.status.conditions if entry.type == "Initialized")
        assert initialized.status == "True"
