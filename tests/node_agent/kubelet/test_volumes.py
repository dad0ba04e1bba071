"""Volumes and environment that the kubelet provides to a pod."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_node_agent.kubelet.volumes import container_mounts
from dra_node_agent.runtime.base import RuntimeFailure, SandboxSpec
from dra_shared.api.codec import convert
from dra_shared.api.resources import CONFIG_MAPS, EVENTS, PODS, SERVICE_ACCOUNTS

from tests.support.kubelet.bench import Bench, claim, pod
from tests.support.kubelet.fakedriver import FakeDriver
from tests.support.waiting import until


async def test_environment_and_volumes_are_read_from_config_maps() -> None:
    async with Bench() as bench:
        bench.api.put(
            CONFIG_MAPS,
            {
                "metadata": {"name": "settings", "namespace": "ns"},
                "data": {"color": "blue", "shape": "round"},
            },
        )
        container = {
            "name": "main",
            "image": "x",
            "command": ["sh", "-c", "echo $COLOR $(NAME) $NODE; cat /etc/settings/shape; echo; sleep 99"],
            "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
            ],
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}],
        }
        volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
        bench.create(pod("pod", container, volumes=volumes))
        await until(lambda: bench.phase() == "Running")
        await bench.prints("blue pod node\nround\n")


async def test_pods_get_a_token_of_their_service_account() -> None:
    async with Bench() as bench:
        bench.api.put(SERVICE_ACCOUNTS, {"metadata": {"name": "robot", "namespace": "ns"}})
        container = {
            "name": "main",
            "image": "x",
            "command": ["sh", "-c", "cat /run/secrets/token; echo; sleep 99"],
            "volumeMounts": [{"name": "token", "mountPath": "/run/secrets"}],
        }
        projection = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
        volumes = [{"name": "token", "projected": {"sources": [projection]}}]
        bench.create(pod("pod", container, volumes=volumes, serviceAccountName="robot"))
        await until(lambda: bench.phase() == "Running")
        await bench.prints("robot in pod\n")

        def count_token_requests() -> int:
            return [path.endswith("/robot/token") for _, path in bench.api.requests].count(True)

        await bench.clock.advance(2800)
        assert count_token_requests() == 1
        # A fifth of the token's lifetime is left.
        await bench.clock.advance(100)
        await until(lambda: count_token_requests() == 2)


async def test_drivers_are_not_called_before_the_volumes_are_mounted() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod"))
        volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
        bench.create(pod(volumes=volumes, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await until(lambda: any(event.reason == "FailedMount" for event in bench.api.find_all(EVENTS)))
        assert driver.calls == []
        bench.api.put(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "ns"}})
        await bench.clock.advance(11)
        await until(lambda: bench.phase() == "Running")
        assert [method for method, _ in driver.calls] == ["NodePrepareResources"]


async def test_certificates_that_are_watched_are_not_requested() -> None:
    async with Bench() as bench:
        container = {
            "name": "main",
            "image": "x",
            "command": ["sh", "-c", "cat /run/secrets/ca.crt; sleep 99"],
            "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/run/secrets"}],
        }
        projection = {"configMap": {"name": "kube-root-ca.crt"}}
        volumes = [{"name": "kube-api-access-x", "projected": {"sources": [projection]}}]
        bench.create(pod("pod", container, volumes=volumes))
        await until(lambda: any(event.reason == "FailedMount" for event in bench.api.find_all(EVENTS)))
        published = {
            "metadata": {"name": "kube-root-ca.crt", "namespace": "ns"},
            "data": {"ca.crt": "PEM\n"},
        }
        bench.config_maps.put(convert(CONFIG_MAPS, published))
        before = len(bench.api.requests)
        bench.kubelet.retry()
        await until(lambda: bench.phase() == "Running")
        await bench.prints("PEM\n")
        assert not any("configmaps" in path for _, path in bench.api.requests[before:])


def test_volumes_that_the_kubelet_writes_are_read_only() -> None:
    sources: dict[str, dict[str, object]] = {
        "config": {"configMap": {"name": "c"}},
        "secret": {"secret": {"secretName": "s"}},
        "down": {"downwardAPI": {"items": []}},
        "all": {"projected": {"sources": []}},
        "own": {"emptyDir": {}},
    }
    container = {
        "name": "main",
        "image": "x",
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in sources],
    }
    volumes = [{"name": name, **source} for name, source in sources.items()]
    made = convert(PODS, pod("pod", container, volumes=volumes))
    folders = {name: Path("/v") / name for name in sources}
    mounts = container_mounts(made, made.spec.containers[0], folders, {})
    assert [mount.target for mount in mounts if not mount.read_only] == ["/own"]


_SETTINGS = [{"name": "settings", "configMap": {"name": "settings"}}]


def _put_settings(bench: Bench) -> None:
    bench.api.put(
        CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "ns"}, "data": {"color": "blue"}}
    )


def _directories(bench: Bench) -> list[str]:
    return sorted(path.name for path in (bench.root / "pods").iterdir())


@pytest.fixture
def home() -> Iterator[Path]:
    # Sockets need short paths.
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as name:
        yield Path(name)


async def test_volumes_of_a_pod_without_containers_are_removed_at_start_if_it_was_deleted(home: Path) -> None:
    first = Bench(home)
    async with first:
        _put_settings(first)
        # Without a driver the pod gets volumes, but neither sandbox nor containers.
        first.add_claim(claim("gpu", "pod"))
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        first.create(pod(volumes=_SETTINGS, resourceClaims=claims))
        color = first.root / "pods" / "pod-uid" / "volumes" / "settings" / "color"
        await until(color.exists)
        assert first.runtime.containers() == []
    first.api.remove("pods", "ns", "pod")
    second = Bench(home, first.api, first.clock)
    foreign = second.root / "pods" / "other-uid" / "containers"
    foreign.mkdir(parents=True)
    (second.root / "pods" / "empty-uid").mkdir()
    async with second:
        await until(lambda: _directories(second) == ["other-uid"])


async def test_removal_of_a_sandbox_without_containers_is_retried(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Bench(home)
    async with first:
        await first.runtime.create_sandbox(SandboxSpec("ns", "pod", "pod-uid", False, "pod"))
    second = Bench(home, first.api, first.clock)
    remove = second.runtime.remove_sandbox
    failures = ["one"]

    async def sometimes(uid: str) -> None:
        if failures:
            failures.pop()
            raise RuntimeFailure("Unavailable", "no runtime")
        await remove(uid)

    monkeypatch.setattr(second.runtime, "remove_sandbox", sometimes)
    async with second:
        await until(lambda: not failures)
        assert second.runtime.address("pod-uid")
        await until(lambda: not second.runtime.pods(), clock=second.clock)
        assert not second.runtime.address("pod-uid")


async def test_volumes_of_a_finished_pod_are_removed_before_its_object() -> None:
    async with Bench() as bench:
        _put_settings(bench)
        container = {
            "name": "main",
            "image": "x",
            "command": ["cat", "/etc/settings/color"],
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}],
        }
        bench.create(pod("pod", container, volumes=_SETTINGS, restartPolicy="Never"))
        await until(lambda: bench.phase() == "Succeeded")
        assert _directories(bench) == []
        assert await bench.log() == "blue\n"
