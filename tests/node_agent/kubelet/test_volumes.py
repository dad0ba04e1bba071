"""What the kubelet puts into a pod's volumes and environment."""

from dra_shared.api.resources import CONFIG_MAPS, EVENTS, SERVICE_ACCOUNTS
from dra_shared.clock import settle

from tests.node_agent.kubelet.bench import Bench, claim, pod
from tests.node_agent.kubelet.fakedriver import FakeDriver
from tests.node_agent.kubelet.waiting import until


async def test_environment_and_volumes_from_config_maps() -> None:
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
        await until(lambda: bench.runtime.containers())
        await settle(50)
        assert await bench.log() == "blue pod node\nround\n"


async def test_pods_have_their_service_accounts_token() -> None:
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
        await until(lambda: bench.runtime.containers())
        await settle(50)
        assert await bench.log() == "robot in pod\n"

        def asked() -> int:
            return [path.endswith("/robot/token") for _, path in bench.api.requests].count(True)

        await bench.clock.advance(2800)
        assert asked() == 1
        # A fifth of its time is left.
        await bench.clock.advance(100)
        await until(lambda: asked() == 2)


async def test_drivers_are_not_called_before_the_volumes_are_there() -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()
        bench.add_claim(claim("gpu", "pod"))
        volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
        bench.create(pod(volumes=volumes, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
        await until(lambda: any(event.reason == "FailedMount" for event in bench.api.list(EVENTS)))
        assert driver.calls == []
        bench.api.put(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "ns"}})
        await bench.clock.advance(11)
        await until(lambda: bench.phase() == "Running")
        assert [method for method, _ in driver.calls] == ["NodePrepareResources"]
