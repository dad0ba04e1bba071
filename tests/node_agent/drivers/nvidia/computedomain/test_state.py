"""Preparing channels and daemon devices, with a fake API server."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from dra_driverkit.directories import Directories
from dra_driverkit.errors import CheckpointError, PrepareError
from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME, api
from dra_node_agent.drivers.nvidia.computedomain.api import ComputeDomain
from dra_node_agent.drivers.nvidia.computedomain.choices import PermanentError
from dra_node_agent.drivers.nvidia.computedomain.domains import Domains
from dra_node_agent.drivers.nvidia.computedomain.imex import Imex
from dra_node_agent.drivers.nvidia.computedomain.state import ComputeDomainState
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.gates import NvidiaGates
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import ResourceClaim, ResourceClaimConsumerReference

from tests.driverkit.cdi.schema import check_file
from tests.driverkit.claims import claim, opaque, ref

CLIQUE = "0e9a8d24-0000-4000-8000-000000000001.32766"


class Api:
    """The objects that :class:`Domains` reads from the API server."""

    def __init__(self, clique: str) -> None:
        self.clique = clique
        self.label: str | None = None
        self.ready = False
        self.domain = ComputeDomain(metadata=ObjectMeta(name="d", namespace="ns", uid="dom"))

    def find(self, uid: str) -> ComputeDomain | None:
        return self.domain if uid == "dom" else None

    def check_namespace(self, uid: str, namespace: str) -> None:
        if self.find(uid) is None:
            raise PrepareError(f"ComputeDomain not found: {uid}")
        if namespace != self.domain.metadata.namespace:
            raise PrepareError(
                "the ResourceClaim's namespace is different than the ComputeDomain's namespace"
            )

    async def join(self, uid: str) -> None:
        if self.label not in (None, uid):
            raise PrepareError("label already exists for a different ComputeDomain")
        self.label = uid

    async def leave(self, uid: str) -> None:
        if self.label == uid:
            self.label = None

    async def check_ready(self, uid: str) -> None:
        if not self.ready:
            raise PrepareError("current node not ready in ComputeDomain")


class Node:
    def __init__(self, directory: Path, gpus: str = "4xGB200", clique: str = CLIQUE) -> None:
        self.api = Api(clique)
        self.imex = Imex()
        self.now = datetime(2026, 8, 7, 12, tzinfo=UTC)
        self.directories = Directories.below(DRIVER_NAME, directory / "kubelet", directory / "cdi")
        self.directories.make(DRIVER_NAME)
        self.host = SimulatedHost(open_system(gpus, "node-0"), directory / "driver")
        self.state = self.start()

    def start(self) -> ComputeDomainState:
        library = DeviceLibrary(self.host, NvidiaGates())
        state = ComputeDomainState(
            library, cast(Domains, self.api), self.directories, lambda: self.now, self.imex
        )
        state.open()
        return state

    def label(self) -> str | None:
        return self.api.label

    def edits(self, uid: str) -> Any:
        document: Any = check_file(self.directories.cdi / f"k8s.{DRIVER_NAME}-claim_{uid}.yaml")
        (device,) = document["devices"]
        return device["containerEdits"]

    def prepare(self, wanted: ResourceClaim) -> list[tuple[str, ...]]:
        return [device.cdi_ids for device in asyncio.run(self.state.prepare(wanted))]

    def unprepare(self, wanted: ResourceClaim) -> None:
        asyncio.run(self.state.unprepare(ref(wanted)))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def config(kind: str, **fields: Any) -> Any:
    parameters = {"apiVersion": api.API_VERSION, "kind": f"ComputeDomain{kind}Config", **fields}
    return opaque(parameters, "r0", driver=DRIVER_NAME)


def host_managed(node: Node) -> Node:
    node.imex = Imex(host_managed=True)
    node.state = node.start()
    return node


def reference(pod: str) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod, uid=pod)


def channel(uid: str = "c1", domain: str = "dom", **fields: Any) -> ResourceClaim:
    return claim(
        uid, "channel-0", driver=DRIVER_NAME, configs=(config("Channel", domainID=domain, **fields),)
    )


def daemon(uid: str = "d1", domain: str = "dom") -> ResourceClaim:
    return claim(uid, "daemon-0", driver=DRIVER_NAME, configs=(config("Daemon", domainID=domain),))


def test_a_channel_is_prepared_only_once_the_imex_daemon_of_its_node_is_ready(node: Node) -> None:
    wanted = channel()
    with pytest.raises(PrepareError, match="error asserting ComputeDomain Ready: current node not ready"):
        node.prepare(wanted)
    assert node.label() == "dom"
    node.api.ready = True
    (ids,) = node.prepare(wanted)
    assert ids == (f"k8s.{DRIVER_NAME}/claim=c1-channel-0",)
    (found,) = node.edits("c1")["deviceNodes"]
    # As NVIDIA's plugin writes it.
    path = "/dev/nvidia-caps-imex-channels/channel0"
    assert found == {"path": path, "type": "c", "major": 510, "fileMode": 0o666}
    node.unprepare(wanted)
    assert node.label() is None
    assert node.state.prepared_claims() == {}
    assert [path.stem for path in node.directories.cdi.iterdir()] == [f"k8s.{DRIVER_NAME}-device_base"]


def test_a_claim_for_all_channels_gets_every_channel(node: Node) -> None:
    node.api.ready = True
    node.prepare(channel(allocationMode="All"))
    nodes = node.edits("c1")["deviceNodes"]
    assert len(nodes) == 2048
    assert nodes[-1]["path"].endswith("/channel2047")


def test_no_devices_are_injected_without_a_fabric(tmp_path: Path) -> None:
    node = Node(tmp_path, "4xH100", "")
    node.api.ready = True
    assert node.prepare(channel()) == [()]
    node.prepare(daemon())
    assert "deviceNodes" not in node.edits("d1")


def test_a_daemon_gets_the_environment_and_devices_of_its_domain(node: Node) -> None:
    (ids,) = node.prepare(daemon())
    assert ids == (f"k8s.{DRIVER_NAME}/device=all", f"k8s.{DRIVER_NAME}/claim=d1-daemon-0")
    edits = node.edits("d1")
    assert edits["env"] == [
        f"CLIQUE_ID={CLIQUE}",
        "COMPUTE_DOMAIN_UUID=dom",
        "COMPUTE_DOMAIN_NAME=d",
        "COMPUTE_DOMAIN_NAMESPACE=ns",
    ]
    (mount,) = edits["mounts"]
    assert mount["containerPath"] == "/imexd"
    assert Path(mount["hostPath"], "imexd.cfg.tmpl").exists()
    assert edits["deviceNodes"][0]["path"].startswith("/dev/nvidia-caps/nvidia-cap")
    assert node.label() is None
    node.state.forget("dom")
    assert not Path(mount["hostPath"]).exists()


def test_preparing_is_idempotent_across_a_restart(node: Node) -> None:
    node.api.ready = True
    first = node.prepare(channel())
    node.api.ready = False
    node.state = node.start()
    assert node.prepare(channel()) == first
    (saved,) = node.state.prepared_claims().values()
    assert saved.groups[0]["configState"] == {"Type": "channel", "ComputeDomain": "dom"}


def test_cdi_files_of_unknown_claims_are_removed_at_start(node: Node) -> None:
    node.api.ready = True
    node.prepare(channel())
    kept = sorted(path.name for path in node.directories.cdi.iterdir())
    (node.directories.cdi / f"k8s.{DRIVER_NAME}-claim_unknown.yaml").touch()
    (node.directories.cdi / f".k8s.{DRIVER_NAME}-claim_cut-off.abc.tmp").touch()
    node.state = node.start()
    assert sorted(path.name for path in node.directories.cdi.iterdir()) == kept


def test_the_node_label_is_removed_if_the_claim_was_never_prepared(node: Node) -> None:
    with pytest.raises(PrepareError):
        node.prepare(channel())
    node.state = node.start()
    node.unprepare(channel())
    assert node.label() is None


def test_an_aborted_preparation_is_not_resumed(node: Node) -> None:
    with pytest.raises(PrepareError):
        node.prepare(channel())
    assert [str(claim) for claim in node.state.unfinished_claims()] == ["ns/claim-c1:c1"]
    node.unprepare(channel())
    node.unprepare(channel())
    assert node.state.unfinished_claims() == []
    # As NVIDIA's plugin writes it: version 1 of the file does not know the claim.
    content = json.loads((node.directories.plugin / "checkpoint.json").read_bytes())
    (saved,) = content["v2"]["preparedClaims"].values()
    assert list(saved) == ["checkpointState", "status", "name", "namespace", "abortedAt"]
    assert (saved["checkpointState"], saved["abortedAt"]) == ("PrepareAborted", "2026-08-07T12:00:00Z")
    assert content["v1"] == {}

    node.api.ready = True
    node.state = node.start()
    message = "^stale prepare for claim ns/claim-c1:c1: claim prepare was already aborted$"
    with pytest.raises(PermanentError, match=message):
        node.prepare(channel())
    assert node.label() is None
    # Another allocation, or reservations for other pods: the claim has to be prepared again.
    again = channel()
    again = msgspec.structs.replace(
        again, status=msgspec.structs.replace(again.status, reserved_for=(reference("p2"),))
    )
    assert len(node.prepare(again)) == 1
    assert node.label() == "dom"


def test_an_aborted_preparation_is_forgotten_after_90_seconds(node: Node) -> None:
    with pytest.raises(PrepareError):
        node.prepare(channel())
    node.unprepare(channel())
    node.now += timedelta(seconds=89)
    assert node.state.forget_aborted(90) == 0
    node.now += timedelta(seconds=1)
    assert node.state.forget_aborted(90) == 1
    assert node.state.prepared_claims() == {}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (channel(domain="none"), "error asserting ComputeDomain's namespace: ComputeDomain not found: none"),
        (channel(domain=""), "error validating config: domainID cannot be empty"),
        (claim("c1", "channel-0", driver=DRIVER_NAME), "error validating config: domainID cannot be empty"),
        (
            claim("c1", "channel-0", driver=DRIVER_NAME, configs=(config("Daemon", domainID="dom"),)),
            "error generating configResultsMap: cannot apply ComputeDomainDaemonConfig to request: r0",
        ),
        (channel(domian="dom"), 'strict decoding error: unknown field "domian"'),
        (
            claim("c1", "channel-7", driver=DRIVER_NAME, configs=(config("Channel", domainID="dom"),)),
            "requested device is not allocatable: channel-7",
        ),
        (daemon(domain="none"), "compute domain not found: none"),
        (
            claim("c1", "channel-0", driver=DRIVER_NAME, configs=(config("Gpu", domainID="dom"),)),
            'no kind "ComputeDomainGpuConfig" is registered',
        ),
    ],
)
def test_a_claim_with_wrong_devices_or_configuration_is_rejected(
    node: Node, wanted: ResourceClaim, message: str
) -> None:
    node.api.ready = True
    with pytest.raises(PrepareError) as raised:
        node.prepare(wanted)
    assert str(raised.value).startswith("prepare devices failed: ")
    assert message in str(raised.value)


def test_errors_that_no_retry_can_fix_are_permanent(node: Node) -> None:
    node.api.domain = msgspec.structs.replace(
        node.api.domain, metadata=ObjectMeta(namespace="else", uid="dom")
    )
    with pytest.raises(PermanentError, match="namespace is different than the ComputeDomain's namespace"):
        node.prepare(channel())
    with pytest.raises(PermanentError, match="error decoding config parameters"):
        node.prepare(channel(wrong=1))


def test_a_channel_is_prepared_for_one_claim(node: Node) -> None:
    node.api.ready = True
    node.prepare(channel())
    with pytest.raises(PrepareError, match="device channel-0 is already allocated to different claim c1"):
        node.prepare(channel("c2"))


def test_a_node_cannot_join_a_second_compute_domain(node: Node) -> None:
    node.api.label = "other"
    with pytest.raises(PrepareError, match="label already exists for a different ComputeDomain"):
        node.prepare(channel())
    node.unprepare(channel())
    assert node.label() == "other"


def test_a_damaged_checkpoint_is_rejected(node: Node) -> None:
    node.api.ready = True
    node.prepare(channel())
    path = node.directories.plugin / "checkpoint.json"
    content = json.loads(path.read_bytes())
    content["v2"]["checksum"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="corrupted"):
        node.start()


class TestHostManaged:
    """The host runs its IMEX daemon itself."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> Node:
        return host_managed(Node(tmp_path))

    def test_a_channel_needs_no_daemon_of_the_domain_if_the_host_runs_its_own(self, node: Node) -> None:
        wanted = channel(allocationMode="All")
        node.prepare(wanted)
        assert node.label() is None
        # Only channel 0 exists, whatever the claim requests.
        assert [found["path"] for found in node.edits("c1")["deviceNodes"]] == [
            "/dev/nvidia-caps-imex-channels/channel0"
        ]
        node.api.label = "dom"
        node.unprepare(wanted)
        assert node.label() == "dom"

    def test_a_channel_is_not_prepared_before_the_hosts_daemon_is_ready(self, node: Node) -> None:
        node.host.system.imex_ready = False
        message = "config: host nvidia-imex daemon readiness check failed: host nvidia-imex daemon not ready"
        with pytest.raises(PrepareError, match=message) as raised:
            node.prepare(channel())
        assert not isinstance(raised.value, PermanentError)
        node.host.system.imex_ready = True
        assert len(node.prepare(channel())) == 1

    def test_no_daemon_is_queried_without_a_fabric(self, tmp_path: Path) -> None:
        node = host_managed(Node(tmp_path, "4xH100", ""))
        node.host.system.imex_ready = False
        assert node.prepare(channel()) == [()]

    def test_a_claim_for_a_daemon_is_rejected_if_the_host_runs_its_own(self, node: Node) -> None:
        message = "ComputeDomain daemon claims are not supported when imex.mode=hostManaged"
        with pytest.raises(PermanentError, match=message):
            node.prepare(daemon())
