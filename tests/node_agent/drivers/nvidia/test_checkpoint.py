import json
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.errors import CheckpointError
from dra_node_agent.drivers.gojson import checksum
from dra_node_agent.drivers.nvidia.checkpoint import COMPLETED, Checkpoint

from tests.driverkit.claims import claim, ref
from tests.node_agent.drivers.nvidia.node import Crash, Node, crash_at
from tests.support.reference import REPOSITORY


def _file(node: Node) -> dict[str, object]:
    content: dict[str, object] = json.loads((node.directory / "checkpoint.json").read_text())
    return content


def test_the_checkpoint_has_the_format_of_the_nvidia_driver(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start().prepare(claim("uid-1", "gpu-5"))
    with pytest.raises(Crash):
        node.start(crash_at("checkpoint-started")).prepare(claim("uid-2", "gpu-6"))
    uuid = node.system.gpus[5].uuid
    text = (node.directory / "checkpoint.json").read_text()
    prepared = (
        '"preparedDevices":[{"devices":[{"gpu":{"info":{"uuid":"' + uuid + '"},"device":{"Requests":["r0"],'
        '"PoolName":"node-0","DeviceName":"gpu-5","CDIDeviceIDs":["k8s.gpu.nvidia.com/claim=uid-1-gpu-5"]}},'
        '"mig":null}],"configState":{}}]'
    )
    status = (
        '{"allocation":{"devices":{"results":[{"request":"r0","driver":"gpu.nvidia.com","pool":"node-0",'
        '"device":"%s"}]}}}'
    )
    first = '"v1":{"preparedClaims":{"uid-1":{"status":' + status % "gpu-5" + "," + prepared + "}}}"
    second = (
        '"preparedClaims":{"uid-1":{"checkpointState":"PrepareCompleted","status":'
        + status % "gpu-5"
        + ","
        + prepared
        + '},"uid-2":{"checkpointState":"PrepareStarted","status":'
        + status % "gpu-6"
        + ',"name":"claim-uid-2","namespace":"ns"}},"nodeBootID":"boot-1"}'
    )
    sums = (
        checksum(('{"checksum":0,' + first + "}").encode()),
        checksum(('{"checksum":0,' + second).encode()),
    )
    assert text == f'{{"checksum":{sums[0]},{first},"v2":{{"checksum":{sums[1]},{second}}}'


def test_a_mig_device_is_stored_with_its_instance_ids(tmp_path: Path) -> None:
    node = Node(tmp_path, "1xH100:whole", "DynamicMIG=true")
    node.start().prepare(claim("uid-1", "gpu-0-mig-2g20gb-14-2"))
    instance, compute = next(node.system.gpus[0].mig_devices())
    second: Any = _file(node)["v2"]
    entry = second["preparedClaims"]["uid-1"]["preparedDevices"][0]["devices"][0]
    assert entry["mig"]["concrete"] == {
        "parentMinor": 0,
        "giId": instance.id,
        "ciId": compute.id,
        "migUUID": compute.uuid,
        "parentUUID": node.system.gpus[0].uuid,
    }


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start().prepare(claim("uid-1", "gpu-5"))
    path = node.directory / "checkpoint.json"
    good = path.read_text()
    for bad in (good.replace("gpu-5", "gpu-6", 1), good[:-20], "[]", good.replace('"boot-1"', '"boot-9"')):
        path.write_text(bad)
        with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
            node.start()
    path.write_text(good)
    assert set(node.start().prepared_claims()) == {"uid-1"}


def test_the_file_of_an_older_driver_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    body = b'{"checksum":0,"v1":{"preparedClaims":{"uid-1":{"status":{}}}}}'
    path.write_bytes(body.replace(b'"checksum":0', b'"checksum":%d' % checksum(body)))
    checkpoint = Checkpoint(path, tmp_path, "k8s.gpu.nvidia.com/claim")
    assert checkpoint.open("boot-1")
    assert checkpoint.claims()["uid-1"].state == COMPLETED
    assert json.loads(path.read_text())["v2"]["nodeBootID"] == "boot-1"


def test_a_change_by_another_process_is_read(tmp_path: Path) -> None:
    node = Node(tmp_path)
    one, two = node.start(), node.start()
    one.prepare(claim("uid-1", "gpu-5"))
    assert set(two.prepared_claims()) == {"uid-1"}
    two.unprepare(ref(claim("uid-1")))
    assert one.prepared_claims() == {}


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("compute-domain-prepared", ["PrepareCompleted", "PrepareCompleted"]),
        ("compute-domain-aborted", ["PrepareAborted", "PrepareStarted"]),
    ],
)
def test_a_file_of_nvidias_own_plugin_is_read_and_written_byte_for_byte(
    tmp_path: Path, name: str, states: list[str]
) -> None:
    """The files are from NVIDIA's compute-domain-kubelet-plugin, built at 9593204 and run on a simulated node."""
    written = (REPOSITORY / "tests/data/nvidia" / f"{name}.json").read_bytes()
    path = tmp_path / "checkpoint.json"
    path.write_bytes(written)
    checkpoint = Checkpoint(path, tmp_path, "k8s.gpu.nvidia.com/claim")
    assert checkpoint.open(json.loads(written)["v2"]["nodeBootID"])
    assert [claim.state for claim in checkpoint.claims().values()] == states
    checkpoint.update(lambda claims: None)
    assert path.read_bytes() == written
