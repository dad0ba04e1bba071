"""The whole driver of a profile, with a fake API server."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_driverkit.cdi import resolve
from dra_driverkit.directories import Directories
from dra_driverkit.errors import DriverConfigError, PrepareError
from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.catalog import ensure_device_classes, find_driver
from dra_node_agent.drivers.deviceplugin import AllocationError
from dra_node_agent.drivers.profile import load_profile
from dra_node_agent.drivers.profile.binding import BindingConditionSetter
from dra_node_agent.drivers.profile.deviceplugin import RunningPlugin
from dra_node_agent.drivers.profile.devices import cluster_resources, resources
from dra_node_agent.drivers.profile.driver import ProfileDriver
from dra_node_agent.drivers.profile.factory import ProfileFactory
from dra_node_agent.drivers.profile.model import BindingConditions, MetadataTemplate
from dra_shared.api.resources import NODES, RESOURCE_CLAIMS
from dra_shared.clock import FakeClock, SystemClock
from dra_shared.version import V1_36, V1_37, Version

from tests.driverkit.claims import claim, ref, result
from tests.node_agent.drivers.pluginkubelet import PluginKubelet
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

_GPU = "gpu.example.com"


def _below(root: Path) -> Directories:
    return Directories.below(_GPU, root / "k", root / "cdi")


async def test_driver_publishes_prepares_and_unprepares(root: Path, api: FakeApi) -> None:
    options = DriverOptions(driver_root=root / "driver", machines=root / "machines")
    driver = find_driver(_GPU, options)
    async with api.client() as client:
        await ensure_device_classes(client, [driver])
        node = DriverNode("node-0", root / "kubelet", root / "cdi", client, SystemClock())
        async with driver.on_node(node) as running:
            assert isinstance(running, ProfileDriver)
            await running.wait_until_published()
            (slice_,) = api.of("resourceslices")
            assert len(slice_["spec"]["devices"]) == 9
            wanted = claim("uid-1", "gpu-3", driver=_GPU)
            (device,) = await running.prepare(wanted)
            assert device.device == "gpu-3"
            with pytest.raises(
                PrepareError, match="error preparing devices for claim uid-2: prepare failed:"
            ):
                await running.prepare(claim("uid-2", "gpu-77", driver=_GPU))
            await running.unprepare(ref(wanted))
    assert api.of("deviceclasses")[0]["spec"]["extendedResourceName"] == "example.com/gpu"


async def test_driver_reports_the_configured_health(root: Path, api: FakeApi) -> None:
    profile = msgspec.structs.replace(load_profile(_GPU), device_status=("model", "uuid"))
    wanted = claim("uid-1", "gpu-3", driver=_GPU)
    plain: dict[str, Any] = msgspec.to_builtins(wanted)
    stored = api.put(RESOURCE_CLAIMS, plain)
    async with api.client() as client:
        driver = ProfileDriver(profile, "node-0", _below(root), client, SystemClock())
        async with driver:
            # The claim changed since the kubelet read it: the second attempt works with the newer one.
            await driver.prepare(wanted)
    (status,) = api.of("resourceclaims")[0]["status"]["devices"]
    assert stored["metadata"]["name"] == "claim-uid-1"
    assert (status["device"], status["data"]["model"]) == ("gpu-3", {"string": "LATEST-GPU-MODEL"})


async def test_network_driver_reports_conditions_and_the_interface(root: Path, api: FakeApi) -> None:
    profile = load_profile("dra.net")
    wanted = claim("uid-1", "pci-0000-03-00-0", driver="dra.net")
    api.put(RESOURCE_CLAIMS, msgspec.to_builtins(wanted))
    directories = Directories.below("dra.net", root / "k", root / "cdi")
    async with (
        api.client() as client,
        ProfileDriver(profile, "node-0", directories, client, SystemClock()) as driver,
    ):
        await driver.prepare(wanted)
    (status,) = api.of("resourceclaims")[0]["status"]["devices"]

    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("Ready", "True", "NetworkDeviceReady"),
        ("NetworkReady", "True", "NetworkReady"),
    ]
    assert status["networkData"] == {"interfaceName": "rdma0", "hardwareAddress": "60:5e:65:14:0f:10"}


@pytest.mark.parametrize(("kubernetes", "documents"), [(V1_36, 1), (V1_37, 2)])
async def test_device_metadata_is_mounted_into_containers(
    root: Path, api: FakeApi, kubernetes: Version, documents: int
) -> None:
    profile = load_profile("examples/drivers/nic.yaml")
    wanted = claim("uid-1", "card-1-port-0", driver=profile.driver)
    api.put(RESOURCE_CLAIMS, msgspec.to_builtins(wanted))
    directories = Directories.below(profile.driver, root / "k", root / "cdi")
    async with (
        api.client() as client,
        ProfileDriver(profile, "node-0", directories, client, SystemClock(), kubernetes=kubernetes) as driver,
    ):
        for _ in range(2):
            await driver.server.prepare([ref(wanted)])
            (file,) = directories.plugin.rglob("metadata.json")
            assert file.read_text().count("apiVersion") == documents
            content, _ = json.JSONDecoder().raw_decode(file.read_text())
            (device,) = content["requests"][0]["devices"]
            assert sorted(device["attributes"]) == ["card", "mac", "port", "rdma", "socket"]
            assert device["networkData"] == {
                "interfaceName": "card-1-port-0",
                "hardwareAddress": "02:00:00:00:01:00",
            }


async def test_metadata_in_an_unknown_version_is_rejected(root: Path, api: FakeApi) -> None:
    template = MetadataTemplate(versions=("v1beta1",))
    profile = msgspec.structs.replace(load_profile(_GPU), device_metadata=template)
    async with api.client() as client:
        with pytest.raises(DriverConfigError, match="none of the requested metadata API versions"):
            ProfileDriver(profile, "node-0", _below(root), client, SystemClock(), kubernetes=V1_36)


async def test_a_damaged_checkpoint_stops_the_driver(root: Path, api: FakeApi) -> None:
    plugin = root / "k" / "plugins" / _GPU
    plugin.mkdir(parents=True)
    (plugin / "checkpoint.json").write_text("{")
    async with api.client() as client:
        driver = ProfileDriver(load_profile(_GPU), "node-0", _below(root), client, SystemClock())
        with pytest.raises(DriverConfigError, match="checkpoint is corrupted"):
            await driver.__aenter__()


_FABRIC = """
driver: fabric.example.com
cdiClass: port
serveHealth: true
generation: 7
devices:
- device: {name: local}
pools:
- name: fabric/all
  allNodes: true
  generation: 3
  devices:
  - each: {port: 2}
    device: {name: "port-{port}"}
- name: "{node}/near"
  nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: ["of-{node}"]}]}]}
  devices:
  - device: {name: local}
deviceEdits:
  env: ["PORT={pool}:{device}"]
"""


async def test_a_pool_that_several_nodes_share_is_published_once(root: Path, api: FakeApi) -> None:
    (root / "fabric.yaml").write_text(_FABRIC)
    factory = ProfileFactory(load_profile(str(root / "fabric.yaml")))
    api.put(NODES, {"metadata": {"name": "node-1"}})
    async with api.client() as client, contextlib.AsyncExitStack() as stack:
        drivers = [
            await stack.enter_async_context(
                factory.on_node(DriverNode(name, root / name, root / "cdi", client, SystemClock()))
            )
            for name in ("node-0", "node-1")
        ]
        await until(lambda: len(api.of("resourceslices")) == 5)
        allocated = [result("local", "r0", "fabric.example.com", pool) for pool in ("node-0", "node-0/near")]
        port = result("port-1", "r1", "fabric.example.com", "fabric/all")
        first = drivers[0]
        assert isinstance(first, ProfileDriver)
        answers = await first.prepare(claim("uid-1", *allocated, port))
        ids = [one for answer in answers for one in answer.cdi_ids]
        environment = resolve(ids, root / "cdi").env
    assert set(environment) == {"PORT=node-0:local", "PORT=node-0/near:local", "PORT=fabric/all:port-1"}
    specs = {s["spec"]["pool"]["name"]: s for s in api.of("resourceslices")}
    assert {name: s["spec"]["pool"]["generation"] for name, s in specs.items()} == {
        "node-0": 7,
        "node-1": 7,
        "fabric/all": 3,
        "node-0/near": 1,
        "node-1/near": 1,
    }
    fabric, near = specs["fabric/all"], specs["node-1/near"]
    assert (fabric["spec"]["allNodes"], "nodeName" in fabric["spec"]) == (True, False)
    assert (fabric["metadata"]["generateName"], fabric["metadata"].get("ownerReferences")) == (
        "00000-fabric.example.com-",
        None,
    )
    assert near["metadata"]["generateName"] == "00000-fabric.example.com-node-1-"
    (term,) = near["spec"]["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["of-node-1"]
    assert [lease["metadata"]["name"] for lease in api.of("leases")] == ["fabric.example.com"]


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ("{name: p, allNodes: true, nodeSelector: {}}", "either nodeSelector or allNodes"),
        ("{name: node-0}", "two pools of that name"),
        ('{name: "{node}/x", nodeSelector: {nodeSelectorTerms: 3}}', "not a node selector"),
        (
            "{name: p, devices: [{device: {name: a}}, {device: {name: a}}]}",
            'duplicate device "a" in pool "p"',
        ),
    ],
)
def test_invalid_shared_pools_of_a_profile_are_rejected(root: Path, pool: str, message: str) -> None:
    path = root / "p.yaml"
    path.write_text(f"driver: a.example.com\ncdiClass: x\npools: [{pool}]\n")
    profile = load_profile(str(path))
    with pytest.raises(DriverConfigError, match=message):
        (resources(profile, "node-0"), cluster_resources(profile))


_BY_CDI = """
driver: nic.acme.com
cdiClass: nic
devicePlugin: {resourceName: acme.com/nic, byCdi: true}
devices:
- each: {nic: 2}
  device:
    name: nic-{nic}
    attributes: {resource.kubernetes.io/numaNode: {int: "{nic}"}}
commonEdits: {env: ["NODE={node}"]}
deviceEdits:
  env: ["NIC_{ID}={device}", "CLAIM={claim.uid}"]
"""


async def test_a_profile_can_serve_a_device_plugin_instead_of_dra(root: Path) -> None:
    client: Any = None
    node = DriverNode("node-0", root / "kubelet", root / "cdi", client, SystemClock())
    (root / "nic.yaml").write_text(_BY_CDI)
    options = DriverOptions(root, root)
    async with PluginKubelet(root / "kubelet") as kubelet:
        driver = find_driver("gpu.example.com:device-plugin", options)
        assert driver.device_classes() == []
        async with driver.on_node(node) as running:
            assert isinstance(running, RunningPlugin)
            await running.wait_until_published()
            assert kubelet.requests[0].resource_name == "example.com/gpu"
            assert len(running.plugin.devices()) == 9
            answer = running.plugin.allocate(["gpu-1", "gpu-2"])
            assert answer.env == {
                "KUBERNETES_NODE_NAME": "node-0",
                "DRA_RESOURCE_DRIVER_NAME": "gpu.example.com",
                "GPU_DEVICE_1": "gpu-1",
                "GPU_DEVICE_2": "gpu-2",
            }
            with pytest.raises(AllocationError, match="unknown device: gpu-9"):
                running.plugin.allocate(["gpu-9"])
        async with find_driver(str(root / "nic.yaml"), options).on_node(node) as running:
            assert isinstance(running, RunningPlugin)
            assert [device.numa_nodes for device in running.plugin.devices()] == [(0,), (1,)]
            answer = running.plugin.allocate(["nic-1"])
            assert answer.cdi_ids == ["device-plugin.nic.acme.com/nic=nic-1"]
            assert resolve(answer.cdi_ids, root / "cdi").env == ("NODE=node-0", "NIC_1=nic-1")


class TestBindingConditions:
    @pytest.mark.parametrize(
        ("rules", "condition", "reason"),
        [
            (BindingConditions(), "Ready4Binding", "Ready"),
            (BindingConditions(after_seconds=30), "Ready4Binding", "Ready"),
            (BindingConditions(fail=True), "Broken", "Failed"),
        ],
    )
    async def test_binding_conditions_are_set_by_the_rules_of_the_profile(
        self, api: FakeApi, rules: BindingConditions, condition: str, reason: str
    ) -> None:
        allocated = result(
            "gpu-0",
            driver=_GPU,
            binding_conditions=("Ready4Binding",),
            binding_failure_conditions=("Broken",),
        )
        elsewhere = result("gpu-1", "r1", _GPU, "node-1", binding_conditions=("Ready4Binding",))
        api.put(RESOURCE_CLAIMS, msgspec.to_builtins(claim("uid-1", allocated, elsewhere)))
        clock = FakeClock()
        async with api.client() as client:
            setter = BindingConditionSetter(client, clock, _GPU, ["node-0"], rules)
            running = asyncio.create_task(setter.run())
            if rules.after_seconds:
                await until(lambda: clock.count_sleepers > 0)
                assert "devices" not in api.of("resourceclaims")[0]["status"]
                await clock.advance(rules.after_seconds)
            await until(lambda: "devices" in api.of("resourceclaims")[0]["status"])
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        (status,) = api.of("resourceclaims")[0]["status"]["devices"]
        assert (status["device"], status["pool"]) == ("gpu-0", "node-0")
        (made,) = status["conditions"]
        assert (made["type"], made["status"], made["reason"]) == (condition, "True", reason)
