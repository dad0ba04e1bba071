"""The cluster of a dump has the feature gates that its objects require."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from dra_cli.commandline import run
from dra_shared.jsontypes import JsonObject
from dralab import World

_DRIVER, _EXTENDED = "gpu.example.com", "example.com/gpu"


class _Case(NamedTuple):
    """Objects of a dump, the expected number of pods that fit, and the required gate."""

    devices: list[JsonObject]
    fits: int
    gate: str
    more: tuple[JsonObject, ...] = ()
    extended: bool = False
    counters: bool = False


def _devices(**more: Any) -> list[JsonObject]:
    return [{"name": f"gpu-{number}", **more} for number in range(3)]


def _tainted_devices() -> list[JsonObject]:
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    return [_devices()[0], *(device | {"taints": [taint]} for device in _devices()[1:])]


_RULE: JsonObject = {
    "apiVersion": "resource.k8s.io/v1alpha3",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "rule", "uid": "rule"},
    "spec": {
        "deviceSelector": {"driver": _DRIVER, "pool": "node-0", "device": "gpu-1"},
        "taint": {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
    },
}
_SHARED = _devices(
    allowMultipleAllocations=True,
    capacity={"memory": {"value": "6", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}},
)
_PARTITIONS = _devices(consumesCounters=[{"counterSet": "set", "counters": {"memory": {"value": "2"}}}])
_CASES = {
    "taints": _Case(_tainted_devices(), 1, "DRADeviceTaints"),
    "rule": _Case(_devices(), 2, "DRADeviceTaints", (_RULE,)),
    # 1.34 looks the capacity of a second device up at the position of the first one.
    "shared": _Case(_SHARED[:1], 6, "DRAConsumableCapacity"),
    "counters": _Case(_PARTITIONS, 2, "DRAPartitionableDevices", counters=True),
    "extended": _Case(_devices(), 3, "DRAExtendedResource", extended=True),
}


def _meta(name: str, namespace: str = "") -> JsonObject:
    return {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}


def _dump(case: _Case, kubelet: str) -> list[JsonObject]:
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "100"}
    info = {"kubeletVersion": kubelet}
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec: JsonObject = {"driver": _DRIVER, "nodeName": "node-0", "pool": pool, "devices": case.devices}
    pieces = [spec]
    if case.counters:
        sets = [{"name": "set", "counters": {"memory": {"value": "4"}}}]
        if kubelet.startswith("v1.34"):
            # Devices consume counters of their own slice.
            spec |= {"sharedCounters": sets}
        else:
            pieces = [{key: spec[key] for key in ("driver", "nodeName")} | {"sharedCounters": sets}, spec]
            for each in pieces:
                each["pool"] = pool | {"resourceSliceCount": 2}
    selector = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
    resource = {"extendedResourceName": _EXTENDED} if case.extended else {}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _meta("node-0"),
            "status": {"allocatable": amounts, "capacity": amounts, "nodeInfo": info},
        },
        *(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": _meta(f"slice-{number}"),
                "spec": piece,
            }
            for number, piece in enumerate(pieces)
        ),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": _meta("gpu"),
            "spec": {"selectors": [selector], **resource},
        },
        *case.more,
    ]


def _requested_pod(*, extended: bool) -> list[JsonObject]:
    """Return a pod with one device."""
    container: JsonObject = {"name": "main", "image": "x"}
    if extended:
        container["resources"] = {"requests": {_EXTENDED: "1"}, "limits": {_EXTENDED: "1"}}
        return [_pod({"containers": [container]})]
    container["resources"] = {"claims": [{"name": "gpu"}]}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return [template, _pod({"containers": [container], "resourceClaims": claims})]


def _pod(spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": spec,
    }


def _write_list(path: Path, items: list[JsonObject]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
@pytest.mark.parametrize("name", _CASES)
def test_capacity_is_computed_with_the_gates_that_objects_require(
    name: str, version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = _CASES[name]
    dump = _write_list(tmp_path / "dump.json", _dump(case, f"v{version}.1"))
    wanted = _requested_pod(extended=case.extended)
    file = _write_list(tmp_path / "wanted.json", wanted)
    run("plan", ["fit", file, "--max", "--from", dump, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["fits"] == case.fits
    world = World.load(dump)
    assert world.fit(wanted, most=True).fits == case.fits
    assert world.problems == answer["uncertain"]
    # Nothing is assumed if the gates are on by default.
    gate = "DRADeviceTaintRules" if (name, version) == ("rule", "1.36") else case.gate
    by_default = version in ("1.36", "1.37") and (name, version) != ("rule", "1.36")
    assert [gate in line for line in answer["uncertain"]] == ([] if by_default else [True])


def test_free_and_explain_name_the_gates_that_they_assume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = _pod({"schedulerName": "default-scheduler", "containers": [{"name": "main"}]})
    dump = _write_list(tmp_path / "dump.json", [*_dump(_CASES["taints"], "v1.35.1"), waiting])
    for words in (["free"], ["explain", "pod/p"]):
        run(words[0], [*words[1:], "--from", dump])
        error = capsys.readouterr().err
        assert "DRADeviceTaints (ResourceSlice slice-0)" in error
        assert "off by default in 1.35" in error


def test_a_gate_that_an_option_disables_stays_disabled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = _write_list(tmp_path / "dump.json", _dump(_CASES["taints"], "v1.35.1"))
    file = _write_list(tmp_path / "wanted.json", _requested_pod(extended=False))
    words = ["fit", file, "--max", "--from", dump, "-o", "json", "--feature-gates", "DRADeviceTaints=false"]
    run("plan", words)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["fits"], answer["uncertain"]) == (3, [])


def test_feature_gates_that_only_the_planned_manifests_need_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = _write_list(tmp_path / "dump.json", _dump(_Case(_devices(), 3, ""), "v1.35.1"))
    template, pod = _requested_pod(extended=False)
    template["spec"]["spec"]["devices"]["constraints"] = [{"distinctAttribute": f"{_DRIVER}/x"}]
    run("plan", ["fit", _write_list(tmp_path / "w.json", [template, pod]), "--from", dump, "-o", "json"])
    (line,) = json.loads(capsys.readouterr().out)["uncertain"]
    assert "DRAConsumableCapacity (ResourceClaimTemplate default/gpu)" in line


def test_fields_of_a_newer_control_plane_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = _devices(attributes={"sizes": {"ints": [1, 2]}})
    dump = _write_list(tmp_path / "dump.json", _dump(_Case(devices, 3, ""), "v1.35.1"))
    run(
        "plan",
        [
            "fit",
            _write_list(tmp_path / "w.json", _requested_pod(extended=False)),
            "--from",
            dump,
            "-o",
            "json",
        ],
    )
    (line,) = json.loads(capsys.readouterr().out)["uncertain"]
    assert "DRAListTypeAttributes (ResourceSlice slice-0)" in line
    assert "--kubernetes-version" in line
