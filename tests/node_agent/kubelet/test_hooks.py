"""Lifecycle hooks and ephemeral containers."""

import asyncio
from typing import Any

import pytest
from dra_shared.api.resources import PODS

from tests.support.kubelet.bench import Bench, pod
from tests.support.waiting import until

_SCRIPT = "trap 'echo bye; exit 0' TERM; while true; do sleep 1; done"


def _with_hooks(**hooks: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox", "command": ["sh", "-c", _SCRIPT], "lifecycle": hooks}


async def test_http_hooks_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bench() as bench:
        asked: list[tuple[str, str]] = []
        probe = bench.runtime.probe

        async def record_probe(container_id: str, kind: str, *rest: Any) -> tuple[bool, str]:
            asked.append((kind, rest[1]))
            return await probe(container_id, kind, *rest)

        monkeypatch.setattr(bench.runtime, "probe", record_probe)
        hook = {"httpGet": {"path": "/", "port": 80}}
        bench.create(pod("pod", _with_hooks(postStart=hook, preStop=hook)))
        await until(lambda: bench.phase() == "Running")
        found = bench.pod()
        assert found is not None
        bench.delete("pod")
        await bench.clock.advance(2)
        await until(lambda: bench.pod() is None)
        assert asked == [("postStart", found.status.pod_ip), ("preStop", found.status.pod_ip)]


@pytest.mark.parametrize(
    "hook",
    [
        {"httpGet": {"path": "/", "port": 80}},
        {"tcpSocket": {"port": 80}},
        {"exec": {"command": ["false"]}},
    ],
    ids=["http", "tcp", "exec"],
)
async def test_failed_post_start_hook_ends_the_container(hook: dict[str, Any]) -> None:
    async with Bench() as bench:
        obj = pod("pod", _with_hooks(postStart=hook), restartPolicy="Never")
        obj["metadata"]["annotations"] = {"dralab.dev/failing-probes": "postStart"}
        bench.create(obj)
        await until(lambda: bench.phase() in ("Failed", "Succeeded"))
        reported: list[tuple[str, str]] = []
        async with asyncio.timeout(60):
            while not reported:
                reported = [
                    (reason, text)
                    for reason, text in await bench.events("Pod")
                    if reason == "FailedPostStartHook" or text == "FailedPostStartHook"
                ]
        # The output of a hook may contain secrets, and many users may read events.
        assert set(reported) <= {
            ("FailedPostStartHook", "PostStartHook failed"),
            ("Killing", "FailedPostStartHook"),
        }


async def test_a_container_whose_post_start_hook_failed_waits_with_the_message_of_the_hook() -> None:
    hook = {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}
    async with Bench() as bench:
        bench.create(pod("pod", _with_hooks(postStart=hook)))

        def waiting_text() -> str:
            found = bench.pod()
            statuses = found.status.container_statuses if found is not None else ()
            state = statuses[0].state.waiting if statuses else None
            return f"{state.reason}: {state.message}" if state is not None else ""

        await until(lambda: waiting_text().startswith("PostStartHookError"))
        assert waiting_text() == (
            "PostStartHookError: Exec lifecycle hook ([sh -c echo no; exit 1]) for Container "
            '"main" in Pod "pod_ns(pod-uid)" failed - error: command \'sh -c echo no; exit 1\' exited with 1: no\n, '
            'message: "no\\n"'
        )


async def test_an_ephemeral_container_runs_once_with_the_others() -> None:
    async with Bench() as bench:
        bench.create(pod("pod", _with_hooks()))
        await until(lambda: bench.phase() == "Running")
        obj = bench.api.get("pods", "ns", "pod")
        debugger = {"name": "debug", "image": "busybox", "command": ["sh", "-c", "echo looking; exit 3"]}
        obj["spec"] = {**obj["spec"], "ephemeralContainers": [debugger]}
        bench.api.put(PODS, obj)

        def has_ended() -> bool:
            found = bench.pod()
            statuses = found.status.ephemeral_container_statuses if found is not None else ()
            return bool(statuses) and statuses[0].state.terminated is not None

        await until(has_ended)
        await bench.clock.advance(60)
        found = bench.pod()
        assert found is not None
        (status,) = found.status.ephemeral_container_statuses
        assert status.state.terminated is not None
        assert (status.name, status.state.terminated.exit_code, status.restart_count) == ("debug", 3, 0)
        assert (status.ready, status.started) == (False, None)
        assert found.status.phase == "Running"
        assert [record.name for record in bench.kubelet.records("pod-uid")].count("debug") == 1
        bench.delete("pod")
        await bench.clock.advance(2)
        await until(lambda: bench.pod() is None)


async def test_an_ephemeral_container_that_ended_before_a_restart_is_not_started_again() -> None:
    async with Bench() as bench:
        debugger = {"name": "debug", "image": "busybox"}
        obj = pod("pod", _with_hooks())
        obj["spec"]["ephemeralContainers"] = [debugger]
        obj["status"] = {
            "ephemeralContainerStatuses": [
                {"name": "debug", "image": "busybox", "state": {"terminated": {"exitCode": 0}}}
            ]
        }
        bench.create(obj)
        await until(lambda: bench.phase() == "Running")
        assert [record.name for record in bench.kubelet.records("pod-uid")] == ["main"]
