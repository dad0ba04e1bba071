"""``dralab plan aligned``: free sets of devices that share an attribute."""

import json
from pathlib import Path

import pytest
from dra_cli.commandline import run
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_worlds.world import WorldError
from dralab import World

from tests.scheduler.objects import node_json

_ROOT = "resource.kubernetes.io/pcieRoot"


def _slice(driver: str, roots: list[str]) -> JsonObject:
    devices = [
        {"name": f"d-{n}", "attributes": {_ROOT: {"string": root}} if root else {}}
        for n, root in enumerate(roots)
    ]
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": driver, "uid": driver},
        "spec": {"driver": driver, "nodeName": "n0", "pool": pool, "devices": devices},
    }


def _class(name: str) -> JsonObject:
    selector = {"cel": {"expression": f'device.driver == "{name}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [selector]},
    }


def _allocated_claim(driver: str, device: str) -> JsonObject:
    result = {"request": "r", "driver": driver, "pool": "n0", "device": device}
    request = {"name": "r", "exactly": {"deviceClassName": driver}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{driver}-{device}", "namespace": "default", "uid": f"{driver}-{device}"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """Return a node with GPUs on the roots a, a, b, c and NICs on a, b, b. A GPU of a is in use."""
    node = {"apiVersion": "v1", **node_json("n0")}
    slices = [_slice("gpu.x", ["a", "a", "b", "c"]), _slice("nic.x", ["a", "b", "b"])]
    claims = [_allocated_claim("gpu.x", "d-0")]
    items = [node, *slices, *claims, _class("gpu.x"), _class("nic.x")]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, JsonObject]:
    code = run("plan", ["aligned", *words, "-o", "json"])
    answer: JsonObject = json.loads(capsys.readouterr().out)
    return code, answer


def test_free_device_sets_share_a_pcie_root(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _ask(capsys, "gpu.x", "nic.x", "--from", dump)
    assert (code, answer["sets"], answer["unaligned"]) == (0, 2, 3)
    (node,) = answer["nodes"]
    assert node["rails"] == {"a": 1, "b": 1, "c": 0}
    assert node["spare"] == {"gpu.x": 1, "nic.x": 1}


def test_free_device_sets_may_have_several_devices_of_a_class(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = _ask(capsys, "gpu.x", "2xnic.x", "--from", dump)
    assert (code, answer["set"], answer["sets"]) == (0, "1 x gpu.x and 2 x nic.x", 1)
    assert _ask(capsys, "2xgpu.x", "nic.x", "--from", dump)[0] == 1


def test_unknown_classes_and_numbers_are_refused(dump: str) -> None:
    with pytest.raises(UserError, match=r'there is no device class "gpu\.y"'):
        run("plan", ["aligned", "gpu.y", "--from", dump])
    with pytest.raises(UserError, match="at least one device"):
        run("plan", ["aligned", "0xgpu.x", "--from", dump])
    with pytest.raises(WorldError, match="no device class is named: a set needs at least one"):
        World.load(dump).ask("aligned", classes={})


def test_the_report_lists_the_free_devices_of_each_rail(dump: str) -> None:
    page = World.load(dump).report("aligned", classes={"gpu.x": 1, "nic.x": 1})
    assert "How many sets of 1 x gpu.x and 1 x nic.x" in page
    assert "2 sets are free, of 3 if alignment did not matter." in page
