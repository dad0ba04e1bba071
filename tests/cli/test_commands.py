"""The commands about objects, on a cluster in this process."""

import json
from pathlib import Path

import pytest
from dra_cli import commandline
from dra_cli.main import main
from dralab.testing import Cluster

from tests.testing.manifests import POD

pytestmark = [pytest.mark.system, pytest.mark.dra_cluster(nodes=2, scope="module")]


class Command:
    """Runs the command against the test's cluster."""

    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self._cluster = cluster
        self._capfd = capfd

    def __call__(self, *words: str, code: int = 0, after: tuple[str, ...] = ()) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--server", self._cluster.url, *(("--", *after) if after else ())])
        shown = self._capfd.readouterr()
        assert ended.value.code == code, shown.err
        return shown.err if code else shown.out


@pytest.fixture
def dralab(dra_cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    dra_cluster.apply(POD)
    dra_cluster.pod("p").wait_for()
    capfd.readouterr()
    return Command(dra_cluster, capfd)


def test_get(dralab: Command) -> None:
    assert dralab("get", "pods").split()[:6] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "p"]
    assert dralab("get", "node/node-1", "pod/p", "-o", "name") == "node/node-1\npod/p\n"
    kinds = dralab("get", "nodes,deviceclasses", "--no-headers")
    assert [line.split()[0] for line in kinds.splitlines() if line][:2] == ["node/node-0", "node/node-1"]
    assert "pod/p " in dralab("get", "all")
    assert json.loads(dralab("get", "pod", "p", "-o", "json"))["kind"] == "Pod"
    assert "kubernetes.io/hostname=node-0" in dralab("get", "nodes", "--show-labels")
    (_, claim) = dralab("get", "resourceclaims", "-o", "wide").splitlines()
    assert claim.split()[-1].startswith("node-")
    assert dralab("get", "jobs") == "No resources found in default namespace.\n"
    assert (
        dralab("get", "pod/nope", code=1) == 'dralab: Error from server (NotFound): pods "nope" not found\n'
    )
    assert "only specify a single resource type to watch" in dralab("get", "pods,nodes", "-w", code=2)


def test_describe_events_and_top(dralab: Command) -> None:
    described = dralab("describe", "pod/p")
    assert "Name:" in described
    assert "Node Name:" in described
    assert "Successfully assigned default/p" in described
    assert "Scheduled" in dralab("events", "--for", "pod/p")
    assert dralab("events", "--for", "pod/other") == "No events found.\n"
    assert dralab("top", "nodes").split()[:4] == ["NAME", "CPU(cores)", "MEMORY(bytes)", "node-0"]
    assert "cannot measure 'jobs'" in dralab("top", "jobs", code=2)


def test_devices(dralab: Command) -> None:
    rows = json.loads(dralab("devices", "-o", "json"))
    held = [row for row in rows if row["pod"] == "default/p"]
    assert len(rows) > len(held) == 1
    assert held[0]["health"] == "Healthy"
    assert {row["node"] for row in json.loads(dralab("devices", "node-1", "-o", "json"))} == {"node-1"}
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"pool": "node-0"},
            "taint": {"key": "example.com/slow", "effect": "NoSchedule"},
        },
    }
    dralab._cluster.apply(rule)
    tainted = {row["node"] for row in json.loads(dralab("devices", "-o", "json")) if "slow" in row["taints"]}
    assert tainted == {"node-0"}


def test_exec_and_logs(dralab: Command) -> None:
    assert "A100" in dralab("exec", "p", after=("nvidia-smi", "-L"))
    dralab("exec", "p", after=("sh", "-c", "exit 3"), code=3)
    assert "say what to run" in dralab("exec", "p", code=2)
    labels = {"app": "x"}
    command = ["sh", "-c", "echo from a deployment; sleep infinity"]
    container = {"name": "c", "image": "any", "command": command}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    dralab._cluster.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    )
    dralab._cluster.wait_for("deployment/d", "Available")
    assert dralab("logs", "deploy/d") == "from a deployment\n"


def test_apply_and_delete(dralab: Command, tmp_path: Path) -> None:
    (tmp_path / "maps.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: y}}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
    )
    (tmp_path / "kustomization.yaml").write_text("resources: [maps.yaml]\nnamePrefix: my-\n")
    assert dralab("apply", "-k", str(tmp_path)) == "configmap/my-a created\nconfigmap/my-b created\n"
    assert dralab("delete", "configmaps", "-l", "x=y") == "configmap/my-a deleted\n"
    assert "configmap/my-b deleted" in dralab("delete", "configmaps", "--all")
    assert "say which to delete" in dralab("delete", "configmaps", code=2)


def test_errors_name_the_file_and_the_line(dralab: Command, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  ports: []\n  typo: x\n"
    )
    assert f"{file}:11: service/s is refused: .spec.typo" in dralab("apply", "-f", str(file), code=1)
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nname: b\n")
    assert f"{file}:5 holds a document without" in dralab("apply", "-f", str(file), code=1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", shell])
    script = capsys.readouterr().out
    assert all(name in script for name in commandline.COMMANDS)
