"""The commands for objects, on a cluster in this process."""

import base64
import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tarfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dra_cli import commandline
from dra_cli.main import main
from dra_lab.restore.reading import read_source
from dralab.testing import Cluster

from tests.support.waiting import blocking_until
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


def test_get_prints_objects_in_each_format(dralab: Command) -> None:
    assert dralab("get", "pods").split()[:6] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "p"]
    assert dralab("get", "node/node-1", "pod/p", "-o", "name") == "node/node-1\npod/p\n"
    kinds = dralab("get", "nodes,deviceclasses", "--no-headers")
    assert [line.split()[0] for line in kinds.splitlines() if line][:2] == ["node/node-0", "node/node-1"]
    assert "pod/p " in dralab("get", "all")
    assert json.loads(dralab("get", "pod", "p", "-o", "json"))["kind"] == "Pod"
    assert "kubernetes.io/hostname=node-0" in dralab("get", "nodes", "--show-labels")
    (_, claim) = dralab("get", "resourceclaims", "-o", "wide").splitlines()
    assert claim.split()[-1].startswith("node-")
    assert dralab("get", "pod", "p", "-o", "jsonpath={.status.phase}") == "Running"
    assert dralab("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}") == "node-0 node-1"
    columns = dralab("get", "pods", "-o", "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName")
    assert columns.split()[::2] == ["NAME", "p"]
    assert dralab("get", "jobs") == "No resources found in default namespace.\n"
    assert (
        dralab("get", "pod/nope", code=1) == 'dralab: Error from server (NotFound): pods "nope" not found\n'
    )
    assert "only specify a single resource type to watch" in dralab("get", "pods,nodes", "-w", code=2)
    assert "may not have more than one slash" in dralab("get", "pod/p/p", code=2)


def test_describe_events_and_top_print_their_tables(dralab: Command) -> None:
    # Events are written in the background.
    blocking_until(lambda: "Successfully assigned default/p" in dralab("describe", "pod/p"))
    described = dralab("describe", "pod/p")
    (labels,) = (
        line for line in dralab("describe", "node/node-0").splitlines() if line.startswith("Labels:")
    )
    assert labels.startswith("Labels:      "), "values stand in a column, those of lists too"
    assert "Name:" in described
    assert "Node Name:" in described
    assert "Scheduled" in dralab("events", "--for", "pod/p")
    assert dralab("events", "--for", "pod/other") == "No events found.\n"
    assert dralab("top", "nodes").split()[:4] == ["NAME", "CPU(cores)", "MEMORY(bytes)", "node-0"]
    assert "cannot measure 'jobs'" in dralab("top", "jobs", code=2)


def test_devices_shows_pod_health_and_taints(dralab: Command) -> None:
    def held_devices() -> Any:
        return [row for row in json.loads(dralab("devices", "-o", "json")) if row["pod"] == "default/p"]

    assert len(json.loads(dralab("devices", "-o", "json"))) > len(held_devices()) == 1
    # The kubelet writes it some time after the pod runs.
    blocking_until(lambda: held_devices()[0]["health"] == "Healthy")
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


def test_exec_runs_commands_and_logs_prints_output(dralab: Command) -> None:
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
    # The container is available before it has written its output.
    blocking_until(lambda: dralab("logs", "deploy/d") == "from a deployment\n")


def test_exec_with_a_terminal_forwards_keys_and_size(dralab: Command) -> None:
    """Ctrl-C is forwarded, too. Afterwards the terminal has its old settings."""
    assert dralab("exec", "-t", "p", after=("echo", "hi")) == "hi\r\n"
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = ["exec", "-it", "p", "--server", dralab._cluster.url, "--", "sh"]
    with _run_process(*command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        shown = _until(ours, b"# ")
        os.write(ours, b"forgotten\x03")
        shown += _until(ours, b"^C\r\n/ # ")
        termios.tcsetwinsize(theirs, (33, 111))
        # The kernel sends this signal to the programs in the foreground when the terminal's size changes.
        process.send_signal(signal.SIGWINCH)
        while not shown.endswith(b"33 111\r\n/ # "):
            os.write(ours, b"stty size\r")
            shown = _until(ours, b"\r\n/ # ")
        os.write(ours, b"echo ab\x7fc\r")
        shown += _until(ours, b"ac\r\n/ # ")
        os.write(ours, b"exit 4\r")
        assert process.wait(30) == 4
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def _until(terminal: int, end: bytes) -> bytes:
    """Return the output of a terminal until it ends like this."""
    shown = b""
    while not shown.endswith(end):
        assert select.select([terminal], [], [], 30)[0], shown
        shown += os.read(terminal, 4096)
    return shown


@contextlib.contextmanager
def _run_process(*words: str, **streams: Any) -> Iterator["subprocess.Popen[str]"]:
    """Run the command as a process, and kill it at the end."""
    command = [sys.executable, "-m", "dra_cli.main", *words]
    with subprocess.Popen(command, text=True, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Have programs that the test starts handle SIGINT, which a shell ignores for background processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_watching_shows_every_change_until_ctrl_c(dralab: Command) -> None:
    command = [
        sys.executable,
        "-m",
        "dra_cli.main",
        "get",
        "configmaps",
        "-w",
        "--server",
        dralab._cluster.url,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = [process.stdout.readline().split() for _ in range(2)]
        assert [row[:2] for row in first] == [["NAME", "DATA"], ["kube-root-ca.crt", "1"]]
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"a": "1"}}
        dralab._cluster.apply(made)
        assert process.stdout.readline().split()[:2] == ["made", "1"]
        dralab._cluster.apply({**made, "data": {"a": "1", "b": "2"}})
        assert process.stdout.readline().split()[:2] == ["made", "2"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_watching_prints_a_template_for_every_change(dralab: Command) -> None:
    template = 'jsonpath={.metadata.name}: {.data.a}{"\\n"}'
    words = ["get", "configmap", "seen", "-w", "-o", template, "--server", dralab._cluster.url]
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}, "data": {"a": "1"}}
    dralab._cluster.apply(made)
    command = [sys.executable, "-m", "dra_cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "seen: 1\n"
        dralab._cluster.apply({**made, "data": {"a": "2"}})
        assert process.stdout.readline() == "seen: 2\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_wait_returns_when_the_condition_is_met(dralab: Command) -> None:
    assert dralab("wait", "--for=condition=ready", "pod/p") == "pod/p condition met\n"
    assert (
        dralab("wait", "--for=jsonpath={.status.phase}=Running", "pods", "--all") == "pod/p condition met\n"
    )
    assert dralab("wait", "--for=create", "pod", "p", "--timeout", "0") == "pod/p condition met\n"
    assert dralab("wait", "--for=delete", "pod/gone", "resourceclaim/gone") == (
        "pod/gone condition met\nresourceclaim.resource.k8s.io/gone condition met\n"
    )
    assert "no matching resources found" in dralab("wait", "--for=create", "jobs", "--all", code=1)
    assert dralab("wait", "--for=delete", "jobs", "--all") == ""
    assert (
        dralab("wait", "--for=condition=Ready=false", "pod/p", "--timeout=0", code=1)
        == "dralab: condition not met for pods/p\n"
    )
    assert "say which to wait for" in dralab("wait", "--for=delete", "pods", code=2)


def test_the_wait_command_observes_objects_that_are_created_or_deleted_later(
    dralab: Command, tmp_path: Path
) -> None:
    """It waits for objects that do not exist yet, and observes deletions."""
    cluster, url = dralab._cluster, dralab._cluster.url
    words = ["wait", "--server", url, "--timeout=1m", "configmap/late"]
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    with _run_process(*words, "--for=jsonpath=.data.x=1", stdout=subprocess.PIPE) as process:
        cluster.apply({**made, "data": {"x": "0"}})
        cluster.apply({**made, "data": {"x": "1"}})
        assert process.communicate(timeout=60)[0] == "configmap/late condition met\n"
    with _run_process(*words, "--for=delete", stdout=subprocess.PIPE) as process:
        cluster.delete("configmap/late")
        assert process.communicate(timeout=60)[0] == "configmap/late condition met\n"


def test_create_generates_names_and_continues_after_an_error(dralab: Command, tmp_path: Path) -> None:
    file = tmp_path / "maps.yaml"
    generated = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  generateName: map-\n"
    file.write_text(f"{generated}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: fixed\n")
    created = dralab("create", "-f", str(file)).splitlines()
    assert [line.rpartition("-")[0] or line for line in created] == [
        "configmap/map",
        "configmap/fixed created",
    ]
    assert created[0].endswith(" created")
    refused = dralab("create", "-f", str(file), code=1)
    assert f'{file}:6: Error from server (AlreadyExists): configmaps "fixed" already exists' in refused
    maps = dralab("get", "configmaps", "-o", "name").split()
    assert len([name for name in maps if name.startswith("configmap/map-")]) == 2
    assert f"{file}:1: ConfigMap without metadata.name; `dralab create -f`" in dralab(
        "apply", "-f", str(file), code=1
    )
    file.write_text(f"{generated}  namespace: other\n")
    assert "not 'mine': leave out --namespace" in dralab("create", "-n", "mine", "-f", str(file), code=1)


def test_create_and_apply_print_the_stored_objects(dralab: Command, tmp_path: Path) -> None:
    file = tmp_path / "maps.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: map-}\n")
    assert dralab("create", "-f", str(file), "-o", "jsonpath={.metadata.name}").startswith("map-")
    file.write_text(
        "".join(f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n" for name in "ab")
    )
    assert dralab("create", "-f", str(file), "-o", "name") == "configmap/a\nconfigmap/b\n"
    stored = dralab("apply", "-f", str(file), "-o", "yaml").split("---\n")
    assert ["uid: " in text for text in stored] == [True, True]
    assert "unknown output 'table': choose name, yaml" in dralab(
        "apply", "-f", str(file), "-o", "table", code=2
    )


def test_a_workload_is_explained_by_its_pending_pod(dralab: Command) -> None:
    container = {"name": "main", "image": "ubuntu:24.04", "command": ["sleep", "infinity"]}
    labels = {"app": "spread"}
    terms = [{"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]
    spec = {
        "containers": [container],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    }
    dralab._cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "spread"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )
    blocking_until(lambda: "2/3" in dralab("get", "deploy/spread"))
    assert "pending" in dralab("explain", "deploy/spread")


def test_wait_for_an_unscheduled_pod_suggests_explain(dralab: Command) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"no": "such"}}
    dralab._cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stuck"}, "spec": spec})
    dralab._cluster.wait_for("pod/stuck", lambda pod: (pod.get("status") or {}).get("conditions"))
    # If the time limit ends before the pod was read, its state is unknown.
    blocking_until(
        lambda: (
            dralab("wait", "--for=condition=Ready", "pod/stuck", "--timeout=200ms", code=1)
            == "dralab: timed out waiting for the condition on pods/stuck; "
            "`dralab explain pod/stuck -n default` says why it has no node\n"
        )
    )


def test_apply_creates_and_delete_removes_objects(dralab: Command, tmp_path: Path) -> None:
    (tmp_path / "maps.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: y}}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
    )
    (tmp_path / "kustomization.yaml").write_text("resources: [maps.yaml]\nnamePrefix: my-\n")
    assert dralab("apply", "-k", str(tmp_path)) == "configmap/my-a created\nconfigmap/my-b created\n"
    assert dralab("delete", "configmaps", "-l", "x=y") == "configmap/my-a deleted\n"
    assert "configmap/my-b deleted" in dralab("delete", "configmaps", "--all")
    assert "say which to delete" in dralab("delete", "configmaps", code=2)


def test_errors_in_a_manifest_name_the_file_and_the_line(dralab: Command, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  ports: []\n  typo: x\n"
    )
    assert f"{file}:11: service/s is refused: .spec.typo" in dralab("apply", "-f", str(file), code=1)
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nname: b\n")
    assert f"{file}:5 holds a document without" in dralab("apply", "-f", str(file), code=1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_includes_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", shell])
    script = capsys.readouterr().out
    assert all(name in script for name in commandline.COMMANDS)


@pytest.mark.parametrize(("words", "history"), [([], ""), (["--history", "24h,2Gi"], "24h,2Gi")])
def test_the_up_command_parses_the_history_option(words: list[str], history: str) -> None:
    assert commandline.parser("up").read(words).history == history


def _revision(dralab: Command, *what: str) -> str:
    found: str = json.loads(dralab("get", *what, "-o", "json"))["metadata"]["resourceVersion"]
    return found


def test_history_shows_changes_with_their_author(dralab: Command) -> None:
    first, *rest = dralab("history", "pod/p").splitlines()
    assert "pod/p -n default  created by dralab" in first
    text = "\n".join(rest)
    assert "    .spec.nodeName: " in text
    assert '.status.phase: "Pending" → "Running"' in text
    assert "create/binding" in text
    changes = json.loads(dralab("history", "pod/p", "-o", "json"))["items"]
    assert [change["type"] for change in changes[:2]] == ["ADDED", "MODIFIED"]
    (newest,) = json.loads(dralab("history", "pods", "-A", "--limit", "1", "-o", "json"))["items"]
    assert int(newest["revision"]) >= int(changes[-1]["revision"])
    (claim,) = json.loads(dralab("get", "resourceclaims", "-o", "json"))["items"]
    assert ".status.allocation" in dralab("history", f"claim/{claim['metadata']['name']}")
    assert "say what" in dralab("history", code=2)
    assert 'resource type "nothing"' in dralab("history", "nothing/x", code=1)


def test_history_shows_changes_of_a_device(dralab: Command) -> None:
    held = next(row for row in json.loads(dralab("devices", "-o", "json")) if row["pod"] == "default/p")
    device = f"device/{held['node']}/{held['device']}"
    published, allocated, *_ = dralab("history", device).splitlines()
    assert f"{device}  created by " in published
    assert f"{device}  allocated to claim default/" in allocated
    assert dralab("history", "device/node-0/nothing") == "No changes found.\n"
    assert "say which device" in dralab("history", "device/x", code=2)


def test_the_history_command_compares_two_revisions(dralab: Command) -> None:
    before = _revision(dralab, "node", "node-1")
    dralab._cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "1"}}
    )
    between = _revision(dralab, "configmap", "c")
    dralab._cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "2"}}
    )
    assert "configmap/c -n default  created" in dralab("history", "--net", "--from", before)
    assert (
        '    .data.x: "1" → "2"' in dralab("history", "--net", "configmap/c", "--from", between).splitlines()
    )
    assert "give --from" in dralab("history", "--net", code=2)


def test_commands_read_the_state_at_a_revision(dralab: Command) -> None:
    changes = json.loads(dralab("history", "pod/p", "-o", "json"))["items"]
    created, running = changes[0]["revision"], _revision(dralab, "pod", "p")
    assert "Pending" in dralab("get", "pods", "--at", created)
    assert "Running" in dralab("get", "pods", "--at", running)
    assert "Pending" in dralab("describe", "pod/p", "--at", created)
    before, after = (json.loads(dralab("free", "-o", "json", "--at", at)) for at in (created, running))
    assert before != after
    assert "default/p" in dralab("explain", "pod/p", "--at", running)
    exported = json.loads(dralab("export", "--at", created))["items"]
    (pod,) = (item for item in exported if item["kind"] == "Pod" and item["metadata"]["name"] == "p")
    assert "nodeName" not in pod["spec"]
    assert "does not change" in dralab("get", "pods", "-w", "--at", "-1s", code=2)
    assert "not a moment" in dralab("get", "pods", "--at", "soon", code=1)


def test_a_bundle_contains_no_secret(dralab: Command, tmp_path: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"x": "hush-hush"},
    }
    dralab._cluster.apply(secret)
    file = tmp_path / "b.tar.gz"
    assert dralab("bundle", "-o", str(file)) == f"{file}\n"
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / "dralab-bundle"
    everything = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert b"hush-hush" not in everything
    assert base64.b64encode(b"hush-hush") not in everything
    assert (root / "versions.txt").read_text().startswith("dralab ")
    changes = [json.loads(line) for line in (root / "history/pods.core.jsonl").read_text().splitlines()]
    assert any(change["name"] == "p" and change["object"]["kind"] == "Pod" for change in changes)
    pools, objects, _ = read_source(str(file), tmp_path)
    assert pools
    assert ("Pod", "p") in {(resource.kind, obj["metadata"]["name"]) for resource, obj in objects}
    assert "cannot write" in dralab("bundle", "-o", str(tmp_path / "nowhere/b"), code=1)
