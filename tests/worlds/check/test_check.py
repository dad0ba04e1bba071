"""``dralab check``: differences between versions, and the exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from dra_cli import commandline
from dra_scheduler.plan.setup import keep_accepted
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_shared.serviceversions import lab_gates
from dra_shared.version import V1_34, V1_36, V1_37, release
from dra_worlds.check import gates
from dralab.testing import Cluster

from tests.worlds.objects import claim, cluster, pod

Checked = tuple[int, JsonObject]
Check = Callable[..., Checked]

_CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {deviceClassName: gpu, tolerations: [{key: x, operator: Exists}]}
"""


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """Return a function that runs the command on a manifest or a dump and returns its exit code and report."""
    monkeypatch.chdir(tmp_path)

    def run_check(given: str | list[JsonObject], against: str, *options: str) -> Checked:
        if isinstance(given, str):
            (tmp_path / "it.yaml").write_text(given)
            words = ["it.yaml"]
        else:
            (tmp_path / "dump.json").write_text(
                json.dumps({"apiVersion": "v1", "kind": "List", "items": given})
            )
            words = ["--from", "dump.json"]
        code = commandline.run("check", [*words, "--against", against, "-o", "json", *options])
        return code, json.loads(capsys.readouterr().out)

    return run_check


def _select(report: JsonObject, level: str, *, before: bool = False) -> list[JsonObject]:
    return [one for one in report["findings"] if (one["level"], one.get("before", False)) == (level, before)]


def test_a_dropped_field_names_its_line_and_the_gate_that_keeps_it(check: Check) -> None:
    code, report = check(_CLAIM, "1.35")
    (found,) = _select(report, "dropped")
    assert code == 1
    assert found["text"] == "spec.devices.requests[0].exactly.tolerations"
    assert found["advice"] == "--feature-gates=DRADeviceTaints=true"
    assert found["where"] == "it.yaml:2"


def test_the_advised_gate_removes_the_finding(check: Check) -> None:
    code, report = check(_CLAIM, "1.35", "--gates-after", "DRADeviceTaints=true")
    assert (code, _select(report, "dropped")) == (0, [])


# A stored template keeps a field whose gate was turned off, and its claims lose it.
_TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: a, namespace: default, uid: u, resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        firstAvailable: [{name: one, deviceClassName: gpu}]
"""
_WITHOUT_LISTS = "DRAPrioritizedList=false"


def test_a_template_is_validated_by_its_claims(check: Check) -> None:
    code, report = check(_TEMPLATE, "1.36", "--gates-after", _WITHOUT_LISTS)
    (found,) = _select(report, "refused")
    assert code == 1
    assert found["subject"] == "ResourceClaimTemplate default/a"
    assert found["text"].startswith("its claims: spec.devices.requests[0]: Required value: exactly one of")
    assert found["advice"] == "--feature-gates=DRAPrioritizedList=true"
    code, report = check(_TEMPLATE, "1.36")
    assert (code, _select(report, "refused")) == (0, [])


def test_errors_of_a_template_in_both_versions_are_reported_as_existing(check: Check) -> None:
    code, report = check(
        _TEMPLATE, "1.36", "--feature-gates", _WITHOUT_LISTS, "--gates-after", _WITHOUT_LISTS
    )
    assert code == 0
    found = _select(report, "refused", before=True)
    assert [one["subject"] for one in found] == ["ResourceClaimTemplate default/a"]


def test_errors_in_both_versions_are_reported_as_existing(check: Check) -> None:
    code, report = check(_CLAIM.replace("gpu,", "gpu, allocationMode: Some,"), "1.37")
    assert code == 0
    assert [one["about"] for one in _select(report, "refused", before=True)] == ["object"]


def test_an_api_version_that_is_not_served_has_a_successor(check: Check) -> None:
    workload = "apiVersion: storage.k8s.io/v1beta1\nkind: VolumeAttributesClass\nmetadata: {name: a}\ndriverName: x\n"
    code, report = check(workload, "1.37", "--runtime-config", "storage.k8s.io/v1beta1=true")
    (found,) = _select(report, "refused")
    assert code == 1
    assert found["text"] == 'no matches for kind "VolumeAttributesClass" in version "storage.k8s.io/v1beta1"'
    assert found["advice"] == "use apiVersion: storage.k8s.io/v1"


def test_a_disabled_api_group_is_named_with_its_requirements(check: Check) -> None:
    group = "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: a}\nspec: {}\n"
    _, report = check(group, "1.37")
    (found,) = _select(report, "refused", before=True)
    assert found["advice"] == (
        "use apiVersion: scheduling.k8s.io/v1beta1, with --feature-gates=GenericWorkload=true"
        " --runtime-config=scheduling.k8s.io/v1beta1=true"
    )


def test_a_gate_of_a_later_version_is_not_called_removed(check: Check) -> None:
    gate = ("--kubernetes-version", "1.37", "--feature-gates", "DRADerivedAttributes=true")
    _, report = check(_CLAIM, "1.36", *gate)
    (found,) = (one for one in _select(report, "refused") if one["about"] == "gate")
    assert found["advice"] == "leave DRADerivedAttributes out of --feature-gates: 1.36 does not have it"


def test_equal_findings_of_many_devices_are_one_line(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = "".join(f"\n  - {{name: d{number}, allowMultipleAllocations: true}}" for number in range(3))
    piece = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n  driver: a.example.com\n"
        f"  allNodes: true\n  pool: {{name: p, generation: 1, resourceSliceCount: 1}}\n  devices:{devices}\n"
    )
    _, report = check(piece, "1.35")
    assert len(_select(report, "dropped")) == 3
    commandline.run("check", ["it.yaml", "--against", "1.35"])
    lines = capsys.readouterr().out.splitlines()
    assert "  ResourceSlice s (it.yaml:1): spec.devices[0].allowMultipleAllocations, and 2 more such" in lines


_BETA = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: a}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu}]}}
"""


def test_a_newly_deprecated_api_version_gets_a_warning(check: Check) -> None:
    options = ("--runtime-config", "api/all=true")
    code, report = check(_BETA, "1.35", "--kubernetes-version", "1.34", *options)
    (found,) = _select(report, "warned")
    assert code == 0
    assert (
        found["text"]
        == "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"
    )
    assert found["advice"] == "use `dralab convert it.yaml`, which makes it resource.k8s.io/v1"
    _, report = check(_BETA, "1.36", "--kubernetes-version", "1.35", *options)
    assert _select(report, "warned") == []


def test_a_kind_of_a_third_version_is_rejected_in_both_versions(check: Check) -> None:
    group = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: a}\nspec: {}\n"
    _, report = check(group, "1.35", "--kubernetes-version", "1.34")
    (found,) = _select(report, "refused", before=True)
    assert found["text"] == 'no matches for kind "PodGroup" in version "scheduling.k8s.io/v1beta1"'
    assert report["unknown"] == []


_NUMA = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices: [{name: gpu-0, attributes: {numa: {ints: [0, 1]}}}]
"""


def test_errors_with_different_messages_in_both_versions_are_reported_as_existing(check: Check) -> None:
    # 1.34 reports a missing value, and 1.36 an invalid one.
    code, report = check(_NUMA, "1.36", "--kubernetes-version", "1.34")
    (found,) = _select(report, "refused", before=True)
    assert code == 0
    assert found["text"].startswith("spec.devices[0].attributes[numa]: Invalid value")


def test_a_field_that_is_unknown_in_one_version_is_the_field_that_a_gate_drops(check: Check) -> None:
    words = 'devices: [{name: gpu-0, nodeAllocatableResourceMappings: {cpu: {allocationMultiplier: "2"}}}]'
    slice_ = _NUMA[: _NUMA.index("devices:")] + words
    code, report = check(slice_, "1.37", "--kubernetes-version", "1.36")
    (found,) = _select(report, "dropped", before=True)
    assert code == 0
    assert found["text"] == "spec.devices[0].nodeAllocatableResourceMappings"


def test_custom_resources_are_named_and_not_validated(check: Check) -> None:
    code, report = check("apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\n", "1.37")
    assert (code, report["unknown"]) == (0, ["Foo (example.com/v1)"])


def _published_by(api_version: str, kubelet: str, manager: str = "driver") -> list[JsonObject]:
    objects = cluster()
    for obj in objects:
        if obj["kind"] == "Node":
            obj["status"]["nodeInfo"] = {"kubeletVersion": kubelet}
        if obj["kind"] == "ResourceSlice":
            obj["metadata"]["managedFields"] = [
                {"manager": manager, "apiVersion": api_version, "operation": "Update"}
            ]
    return objects


def test_a_driver_that_writes_an_unserved_version_is_named(check: Check) -> None:
    code, report = check(_published_by("resource.k8s.io/v1beta1", "v1.35.1"), "1.36")
    (found,) = _select(report, "refused")
    assert (code, report["current"]) == (1, "1.35")
    assert (found["about"], found["subject"]) == ("driver", "gpu.example.com")
    assert found["advice"] == (
        "use a release of it that writes resource.k8s.io/v1, or --runtime-config=resource.k8s.io/v1beta1=true"
    )


@pytest.mark.parametrize("manager", ["kube-scheduler", "device-taint-eviction-controller"])
def test_built_in_writers_are_upgraded_with_the_cluster(check: Check, manager: str) -> None:
    _, report = check(_published_by("resource.k8s.io/v1beta1", "v1.35.1", manager), "1.36", "--no-pods")
    assert _select(report, "refused") == []


@pytest.mark.parametrize(
    ("kubelet", "against", "text"),
    [
        ("v1.33.0", "1.36", ""),
        ("v1.33.0", "1.37", "is more than three minor versions older than an API server of 1.37"),
        ("v1.36.0", "1.35", "is newer than an API server of 1.35"),
    ],
)
def test_kubelets_outside_the_version_skew_policy_are_rejected(
    check: Check, kubelet: str, against: str, text: str
) -> None:
    _, report = check(
        _published_by("resource.k8s.io/v1", kubelet), against, "--kubernetes-version", "1.36", "--no-pods"
    )
    found = [one["text"] for one in _select(report, "refused") if one["about"] == "node"]
    assert found == ([f"kubelet {kubelet} {text}"] if text else [])


def _pending_pod() -> list[JsonObject]:
    """Return a pod that requests a device, with all devices tainted."""
    node, piece, device_class, *_ = cluster()
    for device in piece["spec"]["devices"]:
        device["basic"]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    return [node, piece, device_class, claim("wanted"), pod("waiting", "", "wanted")]


def test_check_compares_the_scheduling_of_pods_by_both_versions(check: Check) -> None:
    code, report = check(_pending_pod(), "1.34", "--kubernetes-version", "1.36")
    (found,) = _select(report, "otherwise")
    assert (code, report["checked"]["pods placed again"]) == (1, 1)
    assert found["subject"] == "Pod default/waiting"
    assert found["text"].startswith(
        "node-0 with gpu.example.com/node-0/gpu-0; today: 0/1 nodes are available"
    )


def test_the_text_output_of_check_advises_what_to_change(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check(_CLAIM, "1.35")
    assert commandline.run("check", ["it.yaml", "--against", "1.35"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "Kubernetes 1.37 -> 1.35: 1 objects",
        "",
        "dropped:",
        "  ResourceClaim a (it.yaml:2): spec.devices.requests[0].exactly.tolerations",
        "    to do: --feature-gates=DRADeviceTaints=true",
    ]


@pytest.mark.parametrize("words", [["--against", "1.12"], ["--against", "1.37", "--gates-after", "X=true"]])
def test_unknown_versions_and_gates_are_rejected(check: Check, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        commandline.run("check", ["it.yaml", *words])
    assert caught.value.code == 2


def test_a_source_without_objects_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"no objects of a cluster in {tmp_path}"):
        commandline.run("check", ["--from", str(tmp_path), "--against", "1.36"])
    (tmp_path / "kubeconfig").touch()
    with pytest.raises(UserError, match=f"give its kubeconfig, {tmp_path}/kubeconfig"):
        commandline.run("check", ["--from", str(tmp_path), "--against", "1.36"])


def test_a_removed_gate_is_rejected_with_advice() -> None:
    found = list(gates.findings({"GangScheduling": True}, V1_36, V1_37))
    assert [(one.text, one.advice) for one in found if one.level == "refused"] == [
        (
            "unrecognized feature gate: GangScheduling",
            "leave GangScheduling out of --feature-gates: it is gone",
        )
    ]


def test_a_locked_gate_is_rejected() -> None:
    found = list(gates.findings({"DRAPrioritizedList": False}, V1_36, V1_37))
    assert found[0].text == "cannot set feature gate DRAPrioritizedList to false, feature is locked to true"
    assert keep_accepted({"DRAPrioritizedList": False, "DRAAdminAccess": True}, V1_37) == {
        "DRAAdminAccess": True
    }


def test_a_gate_whose_dependency_is_disabled_is_dropped() -> None:
    assert keep_accepted({"DRADeviceTaintRules": True, "DRADeviceTaints": False}, V1_34) == {
        "DRADeviceTaints": False
    }


def test_gates_that_depend_on_a_disabled_gate_are_disabled() -> None:
    assert keep_accepted({"DRADeviceTaints": False}, V1_37) == {
        "DRADeviceTaints": False,
        "DRADeviceTaintRules": False,
    }


def test_gates_that_dralab_up_sets_itself_are_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    there = release(V1_37).gates
    with Cluster(nodes=0, gates={name: on for name, on in lab_gates(V1_37).items() if name in there}) as lab:
        words = ["--from", str(lab.kubeconfig), "--against", "1.36", "-o", "json"]
        assert commandline.run("check", words) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["checked"]["objects"] > 0
        assert _select(report, "refused") == []
        # What the caller names is judged, even if `up` sets it.
        code = commandline.run(
            "check", [*words, "--feature-gates", "DRAResourcePoolStatus=true,DRADerivedAttributes=true"]
        )
        assert code == 1
        (gate,) = _select(json.loads(capsys.readouterr().out), "refused")
    assert gate["subject"] == "DRADerivedAttributes"
