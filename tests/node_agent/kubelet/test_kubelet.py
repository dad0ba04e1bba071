"""The lifecycle of pods on a kubelet."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from dra_node_agent.runtime.base import Image, RuntimeFailure
from dra_shared.api.container import ContainerStatus
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.node import Node
from dra_shared.api.resources import CONFIG_MAPS, LEASES, NODES, PODS
from dra_shared.clock import settle

from tests.support.kubelet.bench import SLEEPER, Bench, claim, pod, reasons
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until


def _condition(bench: Bench, kind: str, name: str = "pod") -> tuple[str, str]:
    found = bench.pod(name)
    assert found is not None
    return next((c.status, c.reason) for c in found.status.conditions if c.type == kind)


def _state(bench: Bench, container: str = "main", name: str = "pod") -> Any:
    found = bench.pod(name)
    assert found is not None
    statuses = (*found.status.container_statuses, *found.status.init_container_statuses)
    return next((status for status in statuses if status.name == container), ContainerStatus())


def _waits(bench: Bench, reason: str) -> bool:
    waiting = _state(bench).state.waiting
    return waiting is not None and waiting.reason == reason


async def test_node_registers_and_keeps_its_lease() -> None:
    async with Bench() as bench:
        await until(lambda: bench.api.find(LEASES, "node", "kube-node-lease"))
        node = bench.api.find(NODES, "node")
        conditions = {condition.type: condition.status for condition in node.status.conditions}
        assert conditions == {
            "Ready": "True",
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
        }
        assert node.status.daemon_endpoints.kubelet_endpoint.port == 10250
        first = bench.api.find(LEASES, "node", "kube-node-lease").spec.renew_time
        await bench.clock.advance(11)
        assert bench.api.find(LEASES, "node", "kube-node-lease").spec.renew_time > first
        written = sum(method == "PATCH" and "nodes" in path for method, path in bench.api.requests)
        await bench.clock.advance(60)
        again = sum(method == "PATCH" and "nodes" in path for method, path in bench.api.requests)
        assert again == written, "an unchanged status is reported every five minutes only"
        assert "NodeReady" in reasons(await bench.events())


async def test_a_node_registers_again_after_its_object_was_deleted() -> None:
    async with Bench() as bench:
        await until(lambda: bench.api.find(NODES, "node"))
        await bench.clock.advance(1)
        bench.api.remove("nodes", "", "node")
        await bench.clock.advance(310)
        assert bench.api.find(NODES, "node") is not None


async def test_pod_runs_until_it_is_deleted() -> None:
    async with Bench() as bench:
        bench.create(pod())
        await bench.wait_for_running()
        found = bench.pod()
        assert found is not None
        assert found.status.pod_ip.startswith("10.244.0.")
        assert found.status.qos_class == "BestEffort"
        assert found.status.start_time
        assert found.status.observed_generation == 1
        assert _condition(bench, "Ready") == ("True", "")
        assert _condition(bench, "PodReadyToStartContainers") == ("True", "")
        status = _state(bench)
        assert status.container_id.startswith("fake://")
        assert (status.ready, status.started, status.restart_count) == (True, True, 0)
        assert await bench.log() == "hello\n"

        bench.delete("pod")
        await until(lambda: bench.pod() is None)

        assert reasons(await bench.events("Pod")) == ["Pulling", "Pulled", "Created", "Started", "Killing"]
        await until(lambda: not bench.runtime.containers())
        assert [p for m, p in bench.api.requests if m == "DELETE" and "pods" in p] == [PODS.path("ns", "pod")]
        assert not list((bench.folder / "runtime").iterdir())


async def test_a_pod_whose_containers_exit_with_0_succeeds() -> None:
    async with Bench() as bench:
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "echo done; sleep 5"]}
        bench.create(pod("pod", container, restartPolicy="Never"))
        await until(lambda: bench.phase() == "Running")
        await bench.clock.advance(5)
        await until(lambda: bench.phase() == "Succeeded")
        ended = _state(bench).state.terminated
        assert (ended.exit_code, ended.reason) == (0, "Completed")
        conditions = [_condition(bench, kind) for kind in ("Ready", "Initialized")]
        assert conditions == [("False", "PodCompleted"), ("True", "PodCompleted")]
        assert await bench.log() == "done\n", "the log stays as long as the pod"
        bench.delete("pod", grace=0)
        await until(lambda: bench.pod() is None)


async def test_failing_container_is_restarted_with_growing_delays() -> None:
    async with Bench() as bench:
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "echo oh; exit 3"]}
        bench.create(pod("pod", container))
        await until(lambda: _state(bench).state.waiting is not None and _state(bench).restart_count == 1)
        status = _state(bench)
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert (
            status.state.waiting.message
            == "back-off 10s restarting failed container=main pod=pod_ns(pod-uid)"
        )
        assert status.last_state.terminated.exit_code == 3
        assert bench.phase() == "Running"
        await bench.clock.advance(10.5)
        await until(lambda: _state(bench).restart_count == 2)
        await until(lambda: "back-off 20s" in (_state(bench).state.waiting or status.state.waiting).message)
        events = await bench.events()
        assert ("BackOff", "Back-off restarting failed container main in pod pod_ns(pod-uid)") in events
        assert len(bench.kubelet.records("pod-uid")) == 2, "only the last attempt is kept with the newest"


async def test_a_failing_container_fails_the_pod_with_restart_policy_never() -> None:
    async with Bench() as bench:
        bench.create(pod("pod", {"name": "main", "image": "x", "command": ["false"]}, restartPolicy="Never"))
        await until(lambda: bench.phase() == "Failed")
        assert _state(bench).state.terminated.reason == "Error"
        assert _condition(bench, "ContainersReady") == ("False", "PodFailed")


async def test_init_containers_run_in_order_and_sidecars_keep_running() -> None:
    async with Bench() as bench:
        init = [
            {"name": "first", "image": "x", "command": ["sleep", "3"]},
            {"name": "side", "image": "x", "command": SLEEPER, "restartPolicy": "Always"},
            {"name": "second", "image": "x", "command": ["sleep", "3"]},
        ]
        main = {"name": "main", "image": "x", "command": ["sleep", "5"]}
        bench.create(pod("pod", main, initContainers=init, restartPolicy="Never"))
        await until(lambda: _state(bench, "first").state.running is not None)
        assert bench.phase() == "Pending"
        assert _state(bench).state.waiting.reason == "PodInitializing"
        assert _state(bench, "side").state.waiting is not None
        assert _condition(bench, "Initialized") == ("False", "ContainersNotInitialized")
        await bench.clock.advance(3)
        await until(lambda: _state(bench, "second").state.running is not None)
        assert _state(bench, "side").state.running is not None
        await bench.clock.advance(3)
        await until(lambda: bench.phase() == "Running")
        assert _condition(bench, "Initialized") == ("True", "")
        await bench.clock.advance(5)
        await until(lambda: bench.phase() == "Succeeded")
        assert _state(bench, "side").state.terminated.exit_code == 0


async def test_failing_init_container_fails_the_pod() -> None:
    async with Bench() as bench:
        init = [{"name": "first", "image": "x", "command": ["sh", "-c", "exit 7"]}]
        bench.create(pod(initContainers=init, restartPolicy="Never"))
        await until(lambda: bench.phase() == "Failed")
        assert _state(bench, "first").state.terminated.exit_code == 7
        assert not [record for record in bench.runtime.containers() if record.name == "main"]


async def test_probes_decide_readiness_and_restarts() -> None:
    async with Bench() as bench:
        container = {
            "name": "main",
            "image": "x",
            "command": [
                "sh",
                "-c",
                "sleep 3; touch /tmp/ok; sleep 20; rm /tmp/ok; trap 'exit 1' TERM; sleep 999 & wait",
            ],
            "readinessProbe": {"exec": {"command": ["cat", "/tmp/ok"]}, "periodSeconds": 1},
            "livenessProbe": {
                "exec": {"command": ["cat", "/tmp/ok"]},
                "initialDelaySeconds": 5,
                "periodSeconds": 5,
                "failureThreshold": 2,
            },
        }
        bench.create(pod("pod", container, terminationGracePeriodSeconds=1))
        await until(lambda: bench.phase() == "Running")
        assert not _state(bench).ready
        assert _condition(bench, "Ready") == ("False", "ContainersNotReady")
        for _ in range(5):
            await bench.clock.advance(1)
        await until(lambda: _state(bench).ready)
        for _ in range(35):
            await bench.clock.advance(1)
        await until(lambda: _state(bench).restart_count == 1)
        events = await bench.events()
        unhealthy = "Liveness probe failed: cat: /tmp/ok: No such file or directory\n"
        assert ("Unhealthy", unhealthy) in events
        assert ("Killing", "Container main failed liveness probe, will be restarted") in events


async def test_an_annotation_makes_a_network_probe_fail() -> None:
    async with Bench() as bench:
        obj = pod(
            "pod",
            {
                "name": "main",
                "image": "x",
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
            },
        )
        obj["metadata"]["annotations"] = {"dralab.dev/failing-probes": "readiness"}
        bench.create(obj)
        await until(lambda: bench.phase() == "Running")
        await bench.clock.advance(3)
        assert not _state(bench).ready
        expected = "Readiness probe failed: HTTP probe failed with statuscode: 503"
        assert ("Unhealthy", expected) in await bench.events()


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha4", "v1alpha3"])
async def test_claims_are_prepared_injected_and_unprepared(version: str) -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi, version=version) as driver, bench:
        assert await driver.registered.get() == (True, "")
        bench.add_claim(claim("gpu", "pod"))
        container = {
            "name": "main",
            "image": "x",
            "command": ["sh", "-c", "trap 'exit 0' TERM; echo $DEVICE; sleep 999 & wait"],
            "resources": {"claims": [{"name": "gpu"}]},
        }
        bench.create(pod("pod", container, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await bench.wait_for_running()
        assert await bench.log() == "gpu-uid\n"
        assert driver.prepared == {"gpu-uid"}
        bench.delete("pod")
        await until(lambda: bench.pod() is None)
        assert [method for method, _ in driver.calls] == ["NodePrepareResources", "NodeUnprepareResources"]
        assert list(bench.cdi.iterdir()) == []


async def test_a_pod_waits_for_its_driver_with_an_event() -> None:
    bench = Bench()
    async with bench:
        bench.add_claim(claim("gpu", "pod"))
        bench.create(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        message = (
            "Failed to prepare dynamic resources: prepare dynamic resources:"
            " DRA driver test-driver is not registered"
        )

        async def is_reported() -> bool:
            return ("FailedPrepareDynamicResources", message) in await bench.events()

        await until(is_reported)
        assert bench.phase() == "Pending"
        async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver:
            await driver.registered.get()
            await until(lambda: bench.phase() == "Running", clock=bench.clock)


async def test_pod_is_not_ended_before_its_claim_is_unprepared() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod"))
        container = {"name": "main", "image": "x", "command": ["sleep", "5"]}
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        bench.create(pod("pod", container, resourceClaims=claims, restartPolicy="Never"))
        await until(lambda: bench.phase() == "Running")
        driver.errors["gpu-uid"] = "device is busy"
        await bench.clock.advance(5)
        await until(lambda: driver.calls[-1][0] == "NodeUnprepareResources")
        await until(lambda: _state(bench).state.terminated is not None)
        assert bench.phase() == "Running"
        driver.errors.clear()
        await until(lambda: bench.phase() == "Succeeded", clock=bench.clock)
        assert driver.prepared == set()


async def test_two_pods_share_a_claim() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "one", "two"))
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        bench.create(pod("one", resourceClaims=claims))
        bench.create(pod("two", resourceClaims=claims))
        await bench.wait_for_running("one", "two")
        bench.delete("one")
        await until(lambda: bench.pod("one") is None)
        assert driver.prepared == {"gpu-uid"}
        bench.delete("two")
        await until(lambda: bench.pod("two") is None)
        assert [method for method, _ in driver.calls] == ["NodePrepareResources", "NodeUnprepareResources"]


async def test_force_deleted_pod_leaves_nothing_behind() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod"))
        bench.create(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await until(lambda: bench.phase() == "Running")
        bench.force_delete("pod")
        await until(lambda: not driver.prepared and not bench.runtime.containers())
        await until(lambda: not bench.kubelet.pods())


async def test_no_pod_is_admitted_after_a_restart_before_the_node_is_synced() -> None:
    bench = Bench()
    selector = {"kubernetes.io/hostname": "node"}
    async with bench:
        container = {"name": "main", "image": "x", "command": SLEEPER}
        bench.create(pod("pod", container, nodeSelector=selector))
        await until(lambda: bench.phase() == "Running")
        bench.kubelet.reporter.node = Node(metadata=ObjectMeta(name="node"))
        bench.kubelet.reporter.synced.clear()
        bench.create(pod("later", container, nodeSelector=selector))
        await bench.clock.advance(5)
        assert bench.phase("later") == "Pending"
        await bench.kubelet.reporter._register()
        await until(lambda: bench.phase("later") == "Running")


async def test_sidecars_end_after_the_main_containers() -> None:
    async with Bench() as bench:
        side = {"name": "side", "image": "x", "command": SLEEPER, "restartPolicy": "Always"}
        bench.create(pod(initContainers=[side]))
        await bench.wait_for_running()
        bench.delete("pod")
        await until(lambda: bench.pod() is None)
        killed = [message for reason, message in await bench.events() if reason == "Killing"]
        assert killed == ["Stopping container main", "Stopping container side"]


async def test_container_that_ignores_the_signal_is_killed_after_the_grace_period() -> None:
    async with Bench() as bench:
        bench.create(pod("pod", {"name": "main", "image": "x", "command": ["sleep", "9999"]}))
        await until(lambda: bench.phase() == "Running")
        bench.delete("pod", grace=30)
        await bench.clock.advance(29)
        assert bench.pod() is not None
        await bench.clock.advance(2)
        await until(lambda: bench.pod() is None)


async def test_a_second_delete_shortens_the_grace_period() -> None:
    async with Bench() as bench:
        bench.create(pod("pod", {"name": "main", "image": "x", "command": ["sleep", "9999"]}))
        await until(lambda: bench.phase() == "Running")
        bench.delete("pod", grace=3600)
        await bench.clock.advance(1)
        bench.delete("pod", grace=2)
        await bench.clock.advance(3)
        await until(lambda: bench.pod() is None)


async def test_an_exit_is_reported_before_the_container_is_restarted() -> None:
    seen: list[str] = []
    async with Bench() as bench:

        def watch(event: str, resource: str, obj: dict[str, Any]) -> None:
            for entry in obj.get("status", {}).get("containerStatuses", ()):
                reported = (
                    f"{entry.get('restartCount', 0)} {next(iter(entry['state']))} {entry.get('ready', False)}"
                )
                if resource == "pods" and (not seen or seen[-1] != reported):
                    seen.append(reported)
            follow(event, resource, obj)

        follow, bench.api.on_write = bench.api.on_write, watch
        obj = pod("pod", {"name": "main", "image": "x", "command": ["sh", "-c", "sleep 5; exit 1"]})
        bench.create(obj)
        await until(lambda: bench.phase() == "Running")
        await bench.clock.advance(5)
        await until(lambda: "1 running True" in seen)
    assert seen[-3:] == ["0 running True", "0 terminated False", "1 running True"]


async def test_the_active_deadline_counts_from_the_start_time_that_was_not_sent_yet() -> None:
    async with Bench() as bench:
        bench.create(pod(activeDeadlineSeconds=60))
        # A watch that is late: nothing wakes the pod's worker again.
        bench.api.on_write = lambda event, resource, obj: None
        await until(lambda: bench.phase() == "Running")
        await bench.clock.advance(61)
        await until(lambda: bench.phase() == "Failed")


async def test_a_pod_fails_at_its_active_deadline() -> None:
    async with Bench() as bench:
        bench.create(pod(activeDeadlineSeconds=60))
        await until(lambda: bench.phase() == "Running")
        await bench.clock.advance(61)
        await until(lambda: bench.phase() == "Failed")
        found = bench.pod()
        assert found is not None
        assert found.status.reason == "DeadlineExceeded"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"zone": "elsewhere"}}, "NodeAffinity"),
        (
            {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "65"}}}]},
            "OutOfcpu",
        ),
    ],
)
async def test_a_pod_with_a_node_name_is_rejected_if_it_does_not_fit(
    spec: dict[str, Any], reason: str
) -> None:
    async with Bench() as bench:
        obj = pod()
        obj["spec"].update(spec)
        bench.create(obj)
        await until(lambda: bench.phase() == "Failed")
        found = bench.pod()
        assert found is not None
        assert found.status.reason == reason
        assert found.status.message.startswith("Pod was rejected: ")


@pytest.mark.parametrize(
    ("reason", "reported"),
    [
        (
            "ErrImageNeverPull",
            [("ErrImageNeverPull", "why"), ("Failed", "Error: ErrImageNeverPull")],
        ),
        (
            "ErrImagePull",
            [
                ("Pulling", 'Pulling image "x"'),
                ("Failed", 'Failed to pull image "x": why'),
                ("Failed", "Error: ErrImagePull"),
            ],
        ),
        ("InvalidImageName", [("InspectFailed", "why"), ("Failed", "Error: InvalidImageName")]),
    ],
)
async def test_an_image_that_cannot_be_pulled_is_reported(
    monkeypatch: pytest.MonkeyPatch, reason: str, reported: list[tuple[str, str]]
) -> None:
    async def fail(image: str, policy: str) -> Image:
        raise RuntimeFailure(reason, "why")

    async with Bench() as bench:
        monkeypatch.setattr(bench.runtime, "pull", fail)
        bench.create(pod("pod", {"name": "main", "image": "x"}))
        await until(lambda: _waits(bench, reason))
        # Events with the same time have no order.
        assert set(reported) <= set(await bench.events("Pod"))


async def test_missing_config_is_reported_and_awaited() -> None:
    async with Bench() as bench:
        container = {"name": "main", "image": "x", "envFrom": [{"configMapRef": {"name": "settings"}}]}
        bench.create(pod("pod", container))
        await until(
            lambda: (
                bench.phase() == "Pending" and (waiting := _state(bench).state.waiting) and waiting.message
            )
        )
        waiting = _state(bench).state.waiting
        assert (waiting.reason, waiting.message) == (
            "CreateContainerConfigError",
            'configmap "settings" not found',
        )
        assert ("Failed", 'Error: configmap "settings" not found') in await bench.events()
        bench.api.put(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "ns"}})
        await bench.clock.advance(11)
        await until(lambda: bench.phase() == "Running")


async def test_pods_survive_a_restart_of_the_kubelet() -> None:
    folder = tempfile.TemporaryDirectory(prefix="k", dir="/tmp")
    first = Bench(Path(folder.name))
    async with FakeDriver(registry=first.registry, cdi=first.cdi) as driver:
        async with first:
            await driver.registered.get()
            first.add_claim(claim("gpu", "pod"))
            first.create(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
            await until(lambda: first.phase() == "Running")
            container_id = _state(first).container_id
        second = Bench(first.folder, first.api, first.clock)
        async with second:
            await until(lambda: driver.registered.qsize() > 0)
            await settle(100)
            assert _state(second).container_id == container_id
            assert _state(second).restart_count == 0
            assert await second.log() == "hello\n", "what was printed is not printed again"
            assert [method for method, _ in driver.calls] == ["NodePrepareResources"]
            second.delete("pod")
            await until(lambda: second.pod() is None)
            assert driver.prepared == set()
    folder.cleanup()


async def test_a_pod_that_was_deleted_while_the_kubelet_was_down_is_cleaned_up() -> None:
    folder = tempfile.TemporaryDirectory(prefix="k", dir="/tmp")
    first = Bench(Path(folder.name))
    async with FakeDriver(registry=first.registry, cdi=first.cdi) as driver:
        async with first:
            await driver.registered.get()
            first.add_claim(claim("gpu", "pod"))
            first.create(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
            await until(lambda: first.phase() == "Running")
        first.api.remove("pods", "ns", "pod")
        second = Bench(first.folder, first.api, first.clock)
        async with second:
            await until(lambda: driver.registered.qsize() > 0)
            await until(lambda: not second.runtime.containers(), clock=second.clock)
            await until(lambda: not driver.prepared, clock=second.clock)
            assert list(second.cdi.iterdir()) == []
    folder.cleanup()


async def test_the_status_is_sent_again_after_a_server_error() -> None:
    async with Bench() as bench:
        failure = (500, "InternalError", "made to fail")
        bench.api.refuse = lambda call: (
            failure if (call.verb, call.subresource) == ("patch", "status") else None
        )
        bench.create(pod())
        await until(lambda: bench.runtime.containers())
        await settle(50)
        assert bench.phase() == "Pending"
        bench.api.refuse = lambda call: None
        await bench.clock.advance(1)
        await until(lambda: bench.phase() == "Running")
