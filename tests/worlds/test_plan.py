"""``dralab plan fit``, and ``explain`` and ``free`` of a dump."""

import json
from pathlib import Path

import pytest
import yaml
from dra_cli.commandline import run
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from tests.worlds.objects import claim, cluster, pod


def _template(kind: str = "Pod", **spec: object) -> list[JsonObject]:
    template = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    pod_spec = {
        "containers": [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
    if kind == "Pod":
        return [template, {"apiVersion": "v1", "kind": kind, "metadata": {"name": "p"}, "spec": pod_spec}]
    labels = {"app": "x"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec},
    } | spec
    return [template, {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d"}, "spec": spec}]


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.json"
    items = [*cluster(4), claim("waits"), pod("waits", "", "waits")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _manifest(tmp_path: Path, objects: list[JsonObject]) -> str:
    path = tmp_path / "wanted.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def _fit(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, JsonObject]:
    code = run("plan", ["fit", *words, "-o", "json"])
    answer: JsonObject = json.loads(capsys.readouterr().out)
    return code, answer


def test_the_max_option_reports_the_number_of_pods_that_fit(
    tmp_path: Path, dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of four devices one is held, and the pod that waits gets one.
    file = _manifest(tmp_path, _template())
    code, answer = _fit(capsys, file, "--from", dump, "--max")
    assert (code, answer["fits"], answer["copies"]) == (0, 2, 2)
    assert answer["unplaced"]["pod"] == "default/p-3"


def test_the_count_option_reports_the_pods_that_do_not_fit(
    tmp_path: Path, dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _manifest(tmp_path, _template())
    code, answer = _fit(capsys, file, "--from", dump, "--count", "5")
    assert (code, answer["fits"], answer["wanted"]) == (1, 2, 5)
    assert answer["pods"][0]["devices"] == ["gpu.example.com/node-0/gpu-2"]
    assert "cannot allocate all claims" in answer["pods"][4]["message"]
    code, answer = _fit(capsys, file, "--from", dump)
    assert (code, answer["fits"], answer["more"], answer["uncertain"]) == (0, 1, 1, [])


def test_the_replicas_of_a_deployment_are_planned(
    tmp_path: Path, dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _manifest(tmp_path, _template("Deployment", replicas=3))
    code, answer = _fit(capsys, file, "--from", dump)
    assert (code, answer["fits"], answer["wanted"], answer["copies"]) == (1, 2, 3, 0)


def test_pods_are_planned_on_described_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = _template()
    objects[0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu.nvidia.com"
    file = _manifest(tmp_path, objects)
    code, answer = _fit(capsys, file, "--nodes", "3", "--gpus", "2xH100-SXM5-80GB", "--max")
    assert (code, answer["fits"]) == (0, 6)
    assert {pod["node"] for pod in answer["pods"]} == {"node-0", "node-1", "node-2"}


def test_resource_quantities_in_a_planned_manifest_may_be_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = {"requests": {"cpu": 30, "memory": "1Gi"}}
    spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    file = _manifest(tmp_path, [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}])
    code, answer = _fit(capsys, file, "--nodes", "1", "--max")
    assert (code, answer["fits"]) == (0, 2)
    spec["containers"] = "none"  # type: ignore[assignment]  # wrong on purpose
    broken = _manifest(
        tmp_path, [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}]
    )
    with pytest.raises(UserError, match="a Pod cannot be read"):
        run("plan", ["fit", broken, "--nodes", "1"])


def test_limits_of_a_pod_template_are_its_default_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"app": "x"}
    resources = {"limits": {"nvidia.com/gpu": 2}}
    pod_spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    file = _manifest(tmp_path, [deployment])
    code, answer = _fit(capsys, file, "--nodes", "1", "--gpus", "5xH100-SXM5-80GB", "--max")
    assert (code, answer["fits"]) == (0, 2)
    assert len(answer["pods"][0]["devices"]) == 2


def test_the_answer_of_plan_fit_is_printed_as_text(
    tmp_path: Path, dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _manifest(tmp_path, _template())
    assert run("plan", ["fit", file, "--from", dump, "--count", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "does not fit: 2 of 3 pods fit"
    assert lines[1] == "  default/p-1 on node-0: gpu.example.com/node-0/gpu-2"
    assert "pod default/p-3: pending: unschedulable" in lines


def test_invalid_options_of_plan_are_rejected(tmp_path: Path, dump: str) -> None:
    file = _manifest(tmp_path, _template())
    with pytest.raises(UserError, match="choose one"):
        run("plan", ["fit", file, "--from", dump, "--nodes", "2"])
    with pytest.raises(UserError, match="unknown output"):
        run("plan", ["fit", file, "--from", dump, "-o", "toml"])
    with pytest.raises(UserError, match="no pods"):
        run("plan", ["fit", _manifest(tmp_path, _template()[:1]), "--from", dump])


def test_a_dump_is_explained_and_its_free_devices_are_counted(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("explain", ["pod/waits", "--from", dump])
    text = capsys.readouterr().out
    assert text.startswith("pod default/waits: pending: active")
    assert "node node-0: fits" in text
    run("free", ["--from", dump, "-o", "json"])
    usage = json.loads(capsys.readouterr().out)["classes"]
    assert [(row["free"], row["used"]) for row in usage] == [(3, 1)]
