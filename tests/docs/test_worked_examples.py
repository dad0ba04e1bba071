"""The worked examples of docs/architecture.md work as described, and change only the named files."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dra_apiserver import kinds
from dra_apiserver.kinds.rooms import FLOORS

from tests.docs.patches import copy_packages, hunks
from tests.support.reference import REPOSITORY

PAGE = (REPOSITORY / "docs/architecture.md").read_text()
ROOM = "services/apiserver/dra_apiserver/kinds/resource/"
VERSIONS = "shared/dra_shared/version/"
NO_HEADERS: dict[str, str] = {}
SCHEMA_DATA = "shared/dra_shared/api/schema/"
CLAIMS = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
Answers = list[tuple[int, Any]]


def _ask(
    packages: Path, *requests: tuple[str, str, dict[str, str], Any], version: Sequence[str] = ()
) -> Answers:
    path = os.pathsep.join([str(packages / "shared"), str(packages / "services/apiserver")])
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "tests/docs/ask.py"), *version],
        input=json.dumps(requests),
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    assert Path(printed["package"]).is_relative_to(packages)
    found: Answers = printed["answers"]
    return found


def _run(packages: Path, part: str, *words: str, code: int = 0) -> str:
    """Return the output of a program that runs with the copy of a package."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(packages / part), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def _apply_changes(heading: str, folder: Path, *allowed: str) -> Path:
    copy_packages(REPOSITORY, folder)
    return _apply_more_changes(heading, folder, *allowed)


def _apply_more_changes(heading: str, folder: Path, *allowed: str) -> Path:
    changes = hunks(PAGE, heading)
    assert changes
    assert not [change.path for change in changes if not change.path.startswith(allowed)]
    for change in changes:
        change.apply(folder)
    return folder


def _claim(version: str, name: str, request: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", **request}]}},
    }


def _create(version: str, name: str, purpose: str) -> tuple[str, str, dict[str, str], Any]:
    fields = {"deviceClassName": "gpu", "purpose": purpose}
    claim = _claim(version, name, fields if version == "v1beta1" else {"exactly": fields})
    return ("POST", CLAIMS.format(version) + "?fieldValidation=Strict", {}, claim)


def test_the_documented_new_field_of_a_claim_is_served(tmp_path: Path) -> None:
    (code, before), *_ = _ask(REPOSITORY, _create("v1", "a", "training"))
    assert code == 400
    assert 'unknown field "spec.devices.requests[0].exactly.purpose"' in before["message"]

    packages = _apply_changes("Example: a new field of a claim", tmp_path, ROOM, SCHEMA_DATA)
    good, bad, beta, old, explained = _ask(
        packages,
        _create("v1", "a", "training"),
        _create("v1", "b", "Not A Label"),
        _create("v1beta1", "c", "testing"),
        ("GET", CLAIMS.format("v1beta1") + "/a", {}, None),
        ("GET", "/openapi/v3/apis/resource.k8s.io/v1", {}, None),
    )
    assert good[0] == 201
    assert good[1]["spec"]["devices"]["requests"][0]["exactly"]["purpose"] == "training"
    owned = good[1]["metadata"]["managedFields"][0]["fieldsV1"]
    assert '"f:requests"' in json.dumps(owned)
    assert bad[0] == 422
    assert bad[1]["details"]["causes"][0]["field"] == "spec.devices.requests[0].exactly.purpose"
    assert beta[0] == 201
    assert beta[1]["spec"]["devices"]["requests"][0]["purpose"] == "testing"
    assert old[1]["spec"]["devices"]["requests"][0]["purpose"] == "training"
    types = explained[1]["components"]["schemas"]
    described = types["io.k8s.api.resource.v1.ExactDeviceRequest"]["properties"]["purpose"]
    assert described["description"] == "What the devices are for, a DNS label."


def test_the_documented_new_column_is_shown(tmp_path: Path) -> None:
    claim = _claim("v1", "a", {"exactly": {"deviceClassName": "gpu"}})
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    status = {**claim, "status": {"allocation": {"devices": {"results": [result]}}}}
    at = CLAIMS.format("v1")
    requests: list[tuple[str, str, dict[str, str], Any]] = [
        ("POST", at, {}, claim),
        ("PUT", at + "/a/status", {}, status),
        ("GET", at, TABLE, None),
    ]

    def show_row(packages: Path) -> dict[str, Any]:
        *_, (code, table) = _ask(packages, *requests)
        assert code == 200
        titles = [column["name"] for column in table["columnDefinitions"]]
        return dict(zip(titles, table["rows"][0]["cells"], strict=True))

    assert list(show_row(REPOSITORY)) == ["Name", "State", "Age"]
    row = show_row(_apply_changes("Example: a new column", tmp_path, ROOM))
    assert list(row) == ["Name", "State", "Devices", "Age"]
    assert (row["Name"], row["State"], row["Devices"]) == ("a", "allocated", 1)


def test_the_documented_new_kubernetes_version_is_served(tmp_path: Path) -> None:
    packages = _apply_changes("Example: a new field of a claim", tmp_path, ROOM, SCHEMA_DATA)
    heading = "Example: a new version of Kubernetes"
    _apply_more_changes(heading, packages, VERSIONS)
    text = PAGE.partition(f"### {heading}")[2].partition("```text\n")[2].partition("```")[0]
    (packages / VERSIONS / "pages/1.39.txt").write_text(text)
    requests = (
        ("GET", "/version", NO_HEADERS, None),
        ("GET", "/metrics", NO_HEADERS, None),
        _create("v1", "a", "training"),
        _create("v1beta2", "b", "training"),
    )
    old, new = (_ask(packages, *requests, version=[one]) for one in ("1.38", "1.39"))
    versions = [answers[0][1]["gitVersion"] for answers in (old, new)]
    assert versions == ["v1.38.0-beta.0+dralab", "v1.39.0+dralab"]
    gate = 'kubernetes_feature_enabled{{name="DRADerivedAttributes",stage="{}"}} {}'
    assert gate.format("ALPHA", 0) in old[1][1]
    assert gate.format("BETA", 1) in new[1][1]
    assert ["DRASchedulerFilterTimeout" in answers[1][1] for answers in (old, new)] == [True, False]
    assert [answers[2][0] for answers in (old, new)] == [400, 201]
    assert 'unknown field "spec.devices.requests[0].exactly.purpose"' in old[2][1]["message"]
    # 1.38 serves v1beta2, and 1.39 does not.
    assert [answers[3][0] for answers in (old, new)] == [400, 404]


_OTHER_DOORS = """
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.routes import ask
from dralab import World

world = World.describe(2, "1xH100-SXM5-80GB")
print(world.ask("idle", prefix="node-1").nodes)
print(ask(Planner(world.objects), "idle", b'{"prefix": "node-0"}').decode())
"""


def test_new_planner_question_is_answered_by_every_interface(tmp_path: Path) -> None:
    part = "services/scheduler"
    copy_packages(REPOSITORY, tmp_path, [f"{part}/dra_scheduler"])
    _apply_more_changes("Example: a planner question", tmp_path, f"{part}/dra_scheduler/plan/questions/")
    command = ("-m", "dralab", "plan", "idle", "--nodes", "2")
    assert _run(tmp_path, part, *command) == "idle: node-0, node-1\n"
    assert "nodes whose names begin with it" in _run(tmp_path, part, *command, "--help")
    answer = json.loads(_run(tmp_path, part, *command, "--prefix", "node-1", "-o", "json"))
    assert answer == {"nodes": ["node-1"]}
    assert "<pre>idle: node-0, node-1</pre>" in _run(tmp_path, part, *command, "-o", "html")
    assert _run(tmp_path, part, "-c", _OTHER_DOORS) == '(\'node-1\',)\n{"nodes":["node-0"]}\n'


_POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: x}]}
"""
_PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Quarantine}]}}}]
"""
_NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-0, labels: {quarantine: "yes"}}
status: {allocatable: {pods: "9"}}
"""


def test_new_scheduler_plugin_rejects_nodes_in_a_profile_that_names_it(tmp_path: Path) -> None:
    part = "services/scheduler"
    copy_packages(REPOSITORY, tmp_path, [f"{part}/dra_scheduler"])
    _apply_more_changes("Example: a scheduler plugin", tmp_path, f"{part}/dra_scheduler/plugins/")
    for name, text in (("pod", _POD), ("profile", _PROFILE), ("node", _NODE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    command = (
        "-m",
        "dralab",
        "plan",
        "fit",
        str(tmp_path / "pod.yaml"),
        "--from",
        str(tmp_path / "node.yaml"),
    )
    assert _run(tmp_path, part, *command).startswith("fits: 1 pod")
    profile = ("--config", str(tmp_path / "profile.yaml"))
    rejected = _run(tmp_path, part, *command, *profile, code=1)
    assert "0/1 nodes are available: 1 node(s) are in quarantine." in rejected


_STRIKE = """
from dralab.testing import Cluster

with Cluster(gpus="1xT4", fake_clock=True) as cluster:
    fault = cluster.disturb("clock-behind", seconds=5, node="node-0", behind=3600.0)
    print(fault.promise)
    cluster.calm()
    print(fault.kept())
"""


def test_the_documented_new_fault_is_listed_injected_and_checked(tmp_path: Path) -> None:
    copy_packages(REPOSITORY, tmp_path, ["shared/dra_shared"])
    _apply_more_changes("Example: a fault", tmp_path, "shared/dra_shared/faults/")
    command = ("-m", "dralab", "fault")
    assert _run(tmp_path, "shared", *command).splitlines()[-1].split()[0] == "clock-behind"
    assert "clock-behind: seconds (60)" in _run(tmp_path, "shared", *command, "--help")
    promise, kept = _run(tmp_path, "shared", "-c", _STRIKE).splitlines()[-2:]
    assert promise == "others measure by their own clocks: the node stays Ready"
    assert kept == "['the node stayed Ready']"


def test_architecture_page_lists_the_layers_of_all_api_server_packages() -> None:
    rows = PAGE.partition("| the rooms' floors |")[2].partition("\n\n")[0].splitlines()[2:]
    shown = [tuple(row.split("|")[1].strip().split(", ")) for row in rows]
    assert shown == [("bootstrap",), ("catalog",), *FLOORS]


def test_every_package_below_kinds_is_in_the_list_of_layers() -> None:
    packages = {path.parent.name for path in Path(kinds.__file__).parent.glob("*/__init__.py")}
    assert packages - {"bootstrap"} == {name for floor in FLOORS for name in floor}
