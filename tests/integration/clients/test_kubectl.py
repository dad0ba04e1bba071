"""kubectl, with commands as users type them."""

import json
import os
import re
import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from dra_shared.version import DEFAULT

from tests.integration.clients.objects import claim, deployment, gpu_pod, template
from tests.support.sampling import sample
from tests.support.waiting import blocking_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH"),
]

Kubectl = Callable[..., str]


# kubectl of 1.32 may read a response before it has created the streams for it, and then drops it.
_STREAMS_RACED = re.compile("Unknown stream id .*discarding message")
_TRIES = 3


@pytest.fixture
def name() -> str:
    return f"c-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def environment(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    # kubectl runs only for a moment, so garbage collection would only cost time.
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home), "GOGC": "off"}


@pytest.fixture
def kubectl(environment: dict[str, str]) -> Kubectl:
    def run(*arguments: str, stdin: Any = None, fails: bool = False, **variables: str) -> str:
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        if text is not None:
            arguments = (*arguments, "-f", "-")
        for _ in range(_TRIES):
            result = subprocess.run(
                ["kubectl", *arguments],
                input=text,
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
                env={**environment, **variables},
            )
            if not _STREAMS_RACED.search(result.stderr):
                break
        assert (result.returncode != 0) == fails, f"{arguments}: {result.stdout}{result.stderr}"
        return result.stdout + result.stderr if fails else result.stdout

    return run


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_version_cluster_info_and_readiness_are_printed(kubectl: Kubectl, server: str) -> None:
    assert f"Server Version: v{DEFAULT}." in kubectl("version")
    assert f"is running at {server}" in re.sub(r"\x1b\[[0-9;]*m", "", kubectl("cluster-info"))
    assert "ok" in kubectl("get", "--raw", "/readyz?verbose")
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"


def test_every_kind_can_be_listed_in_every_output_format(kubectl: Kubectl) -> None:
    kinds = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    assert {"pods", "resourceclaims.resource.k8s.io", "devicetaintrules.resource.k8s.io"} <= set(kinds)
    kinds.remove("componentstatuses")
    everything = ",".join(kinds)
    for form in ("wide", "name", "json"):
        kubectl("get", everything, "-A", "-o", form)
    assert "LABELS" in kubectl("get", "namespaces", "--show-labels")


def test_top_shows_the_usage_of_nodes_and_pods(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "namespace", name)
    annotations = {"dralab.dev/cpu-usage.main": "1500m"}
    requests = {"cpu": "250m", "memory": "64Mi"}
    containers = [
        {"name": one, "image": "busybox", "command": ["sleep", "9999"], "resources": {"requests": requests}}
        for one in ("main", "sidecar")
    ]
    pods = [
        {"metadata": {"name": "large", "annotations": annotations}, "spec": {"containers": containers}},
        {"metadata": {"name": "small"}, "spec": {"containers": containers[1:]}},
    ]
    for pod in pods:
        kubectl("apply", "-n", name, stdin={"apiVersion": "v1", "kind": "Pod", **pod})
    kubectl("wait", "-n", name, "--for=condition=Ready", "pod", "--all", "--timeout=60s")

    def rows(*arguments: str) -> list[list[str]]:
        return [line.split() for line in kubectl("top", *arguments, "--no-headers").splitlines()]

    # Answers are kept for some seconds: pods that started since have no metrics until then.
    blocking_until(
        lambda: kubectl("get", "pods.metrics.k8s.io", "-n", name, "-o", "name").count("\n") == len(pods)
    )
    assert rows("pods", "-n", name) == [["large", "1750m", "128Mi"], ["small", "250m", "64Mi"]]
    assert rows("pods", "-n", name, "--sort-by=memory")[0][0] == "large"
    assert [name, "small", "250m", "64Mi"] in rows("pods", "-A", "--sort-by=cpu")
    assert rows("pod", "large", "-n", name, "--containers") == [
        ["large", "main", "1500m", "64Mi"],
        ["large", "sidecar", "250m", "64Mi"],
    ]
    nodes = rows("nodes", "--sort-by=cpu")
    assert {row[0] for row in nodes} == set(
        kubectl("get", "nodes", "-o", "name").replace("node/", "").split()
    )
    # The usage of a node includes its system processes.
    assert all(int(row[1].removesuffix("m")) >= 50 and row[3].endswith("Mi") for row in nodes)
    assert "kube-system/metrics-server" in kubectl("get", "apiservices", "v1beta1.metrics.k8s.io")
    kubectl("delete", "namespace", name, "--wait=false")


def test_explain_describes_the_fields_of_each_version(kubectl: Kubectl) -> None:
    text = kubectl("explain", "resourceclaim.spec.devices.requests", "--recursive")
    assert "exactly\t<ExactDeviceRequest>" in text
    assert "expression\t<string> -required-" in text
    assert "<[]DeviceSubRequest>" in text
    old = kubectl("explain", "resourceclaim.spec.devices.requests", "--api-version=resource.k8s.io/v1beta1")
    assert "deviceClassName\t<string>" in old


def test_apply_keeps_fields_of_other_managers(kubectl: Kubectl, name: str) -> None:
    assert "created" in kubectl("apply", stdin=config_map(name, a="1", b="2"))
    assert "unchanged" in kubectl("apply", stdin=config_map(name, a="1", b="2"))
    kubectl("patch", "configmap", name, "--type=merge", "-p", '{"data":{"c":"other"}}')
    # kubectl diff compares the future state with the current one, and fails if they differ.
    difference = kubectl("diff", stdin=config_map(name, a="3"), fails=True)
    assert re.findall(r"^([+-] .*)$", difference, re.M) == ['-  a: "1"', '-  b: "2"', '+  a: "3"']
    assert "configured" in kubectl("apply", stdin=config_map(name, a="3"))
    shown = yaml.safe_load(kubectl("get", "configmap", name, "-o", "yaml"))
    assert shown["data"] == {"a": "3", "c": "other"}
    assert "serverside-applied" not in kubectl("apply", "--dry-run=server", stdin=config_map(name, a="4"))
    assert kubectl("get", "configmap", name, "-o", "jsonpath={.data.a}") == "3"
    assert "deleted" in kubectl("delete", stdin=config_map(name))


def test_server_side_apply_detects_conflicts(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "--server-side", stdin=config_map(name, a="1", b="2"))
    refused = kubectl(
        "apply", "--server-side", "--field-manager=other", stdin=config_map(name, a="3"), fails=True
    )
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refused
    forced = ("--server-side", "--field-manager=other", "--force-conflicts")
    assert "serverside-applied" in kubectl("apply", *forced, stdin=config_map(name, a="3"))
    shown = json.loads(kubectl("get", "configmap", name, "-o", "json", "--show-managed-fields"))
    assert {entry["manager"] for entry in shown["metadata"]["managedFields"]} == {"kubectl", "other"}


def test_objects_are_patched_labeled_and_edited(kubectl: Kubectl, name: str) -> None:
    kubectl("create", stdin=deployment(name, 0))
    kubectl("patch", "deploy", name, "--type=json", "-p", '[{"op":"add","path":"/spec/paused","value":true}]')
    kubectl("patch", "deploy", name, "--type=merge", "-p", '{"spec":{"minReadySeconds":1}}')
    variable = '{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"b"}]}]}}}}'
    kubectl("patch", "deploy", name, "-p", variable)
    kubectl("edit", "deploy", name, KUBE_EDITOR="sed -i s/minReadySeconds:.*/minReadySeconds:\\ 2/")
    kubectl("label", "deploy", name, "x=y")
    assert "already has a value" in kubectl("label", "deploy", name, "x=z", fails=True)
    kubectl("label", "deploy", name, "x=z", "--overwrite")
    kubectl("annotate", "deploy", name, "note=here")
    shown = json.loads(kubectl("get", "deploy", name, "-o", "json"))
    assert (shown["spec"]["paused"], shown["spec"]["minReadySeconds"]) == (True, 2)
    (container,) = shown["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == ("nginx:1.25", [{"name": "A", "value": "b"}])
    assert shown["metadata"]["labels"] == {"x": "z"}
    assert shown["metadata"]["annotations"]["note"] == "here"


def test_a_deployment_is_rolled_out_and_rolled_back(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "deployment", name, "--image=nginx:1", "--replicas=2", "--port=80")
    assert "successfully rolled out" in kubectl("rollout", "status", f"deploy/{name}", "--timeout=60s")
    kubectl("scale", f"deploy/{name}", "--replicas=3")
    kubectl("set", "image", f"deploy/{name}", "nginx=nginx:2")
    kubectl("rollout", "status", f"deploy/{name}", "--timeout=60s")
    assert re.findall(r"^(\d+) ", kubectl("rollout", "history", f"deploy/{name}"), re.M) == ["1", "2"]
    kubectl("rollout", "undo", f"deploy/{name}")
    kubectl("rollout", "restart", f"deploy/{name}")
    kubectl("rollout", "status", f"deploy/{name}", "--timeout=60s")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl("get", "deploy", name, "-o", image) == "nginx:1"
    assert re.search(
        rf"^{name} +3/3 +3 +3 +\S+ +nginx +nginx:1 +app={name}$",
        kubectl("get", "deploy", name, "-o", "wide"),
        re.M,
    )
    assert "NewReplicaSetAvailable" in kubectl("describe", "deploy", name)
    kubectl("expose", "deploy", name)
    kubectl("autoscale", "deploy", name, "--max=3")
    kubectl("delete", "deploy,service,hpa", name, "--cascade=foreground")
    assert kubectl("get", "pods", "-l", f"app={name}", "-o", "name") == ""


def test_a_pod_with_a_claim_runs_and_is_described(kubectl: Kubectl, name: str) -> None:
    kubectl("create", stdin=template(name))
    kubectl("create", stdin=gpu_pod(name, name, "echo one; echo two; sleep 1000"))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{name}", "--timeout=60s")
    # A container runs before it has printed.
    blocking_until(lambda: kubectl("logs", name, "--tail=1") == "two\n")
    # Events are written in the background, one after the other.
    blocking_until(lambda: "Started" in kubectl("events", "--for", f"pod/{name}"))
    printed = kubectl("describe", "pod", name)
    reasons = re.findall(r"^  Normal  (\w+)", printed, re.M)
    assert reasons == ["Scheduled", "Pulling", "Pulled", "Created", "Started"] or reasons == [
        "Scheduled", "Pulled", "Created", "Started",
    ]  # fmt: skip
    assert "Scheduled" in kubectl("events", "--for", f"pod/{name}")
    generated = kubectl(
        "get", "pod", name, "-o", "jsonpath={.status.resourceClaimStatuses[0].resourceClaimName}"
    )
    assert re.search(rf"^{generated} +allocated,reserved +\S+$", kubectl("get", "resourceclaims"), re.M)
    assert "Device Class Name:  gpu.nvidia.com" in kubectl("describe", "resourceclaim", generated)
    node = kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")
    assert name in kubectl("describe", "node", node)
    kubectl("delete", "pod", name, "--grace-period=0", "--force")
    kubectl("wait", "--for=delete", f"resourceclaim/{generated}", "--timeout=60s")


def test_a_job_completes_and_its_logs_are_printed(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "job", name, "--image=busybox", "--", "echo", "done")
    kubectl("wait", "--for=condition=complete", f"job/{name}", "--timeout=60s")
    assert kubectl("logs", f"job/{name}") == "done\n"
    assert kubectl("logs", "-f", "-l", f"job-name={name}", "--all-containers", "--prefix").endswith(
        "] done\n"
    )
    assert "1 Succeeded" in kubectl("describe", "job", name)
    kubectl("delete", "job", name, "--cascade=background")


def test_run_with_attach_waits_until_the_pod_has_ended(kubectl: Kubectl, name: str) -> None:
    shown = kubectl("run", "-i", "--rm", name, "--image=busybox", "--restart=Never", "--", "echo", "hi")
    assert shown.startswith("hi\n")
    assert "NotFound" in kubectl("get", "pod", name, fails=True)
    assert kubectl("run", name, "--image=busybox", "--dry-run=server", "-o", "name") == f"pod/{name}\n"
    assert "NotFound" in kubectl("get", "pod", name, fails=True)


_CREATED = {
    "secret": ("generic", "NAME", "--from-literal=a=b"),
    "quota": ("NAME", "--hard=configmaps=1000"),
    "role": ("NAME", "--verb=get", "--resource=pods"),
    "rolebinding": ("NAME", "--role=NAME", "--serviceaccount=default:NAME"),
    "clusterrole": ("NAME", "--verb=get", "--resource=pods"),
    "clusterrolebinding": ("NAME", "--clusterrole=NAME", "--user=x"),
    "priorityclass": ("NAME", "--value=7"),
    "poddisruptionbudget": ("NAME", "--selector=app=NAME", "--min-available=1"),
    "service": ("clusterip", "NAME", "--tcp=80:80"),
    "ingress": ("NAME", "--rule=example.org/x=NAME:80"),
    "cronjob": ("NAME", "--image=busybox", "--schedule=0 0 1 1 *", "--", "date"),
}


def test_create_supports_each_kind(kubectl: Kubectl, name: str) -> None:
    """A run of the tests tries some of the kinds; `make thorough` tries all."""
    some = {"configmap": ("NAME", "--from-literal=a=b"), "serviceaccount": ("NAME",)}
    some |= sample(list(_CREATED.items()), 4)
    for kind, arguments in some.items():
        shown = kubectl("create", kind, *(argument.replace("NAME", name) for argument in arguments))
        assert "created" in shown
    assert kubectl("create", "token", name)
    again = kubectl("create", "configmap", name, fails=True)
    assert f'configmaps "{name}" already exists' in again
    kinds = ",".join(some)
    created = kubectl("get", kinds, "-o", "name", "--field-selector", f"metadata.name={name}")
    assert len(created.split()) == len(some)
    kubectl("delete", kinds, name)


def test_a_namespace_is_created_and_deleted(kubectl: Kubectl, name: str) -> None:
    assert "created" in kubectl("create", "namespace", name)
    kubectl("delete", "namespace", name, "--timeout=60s")


def test_lists_are_selected_sorted_and_paged(kubectl: Kubectl, name: str) -> None:
    for index in (2, 0, 1):
        kubectl("create", "configmap", f"{name}-{index}", f"--from-literal=n={index}")
        kubectl("label", "configmap", f"{name}-{index}", f"list={name}", f"n={index}")
    chosen = ("get", "configmaps", "-l", f"list={name}")
    names = [f"configmap/{name}-{index}" for index in range(3)]
    assert kubectl(*chosen, "--chunk-size=1", "-o", "name").split() == names
    assert kubectl(*chosen, "-o", "custom-columns=N:.data.n", "--sort-by=.data.n").split() == list("N012")
    assert kubectl(*chosen, "-o", "jsonpath={.items[*].data.n}") == "0 1 2"
    assert kubectl("get", "cm", "-l", f"list={name},n in (1,2)", "-o", "name").split() == names[1:]
    assert kubectl(*chosen, "-L", "n", "--no-headers").split()[3::4] == list("012")
    bad = kubectl("get", "pods", "--field-selector", "foo=bar", fails=True)
    assert "field label not supported: foo" in bad
    assert "the server doesn't have a resource type" in kubectl("get", "gadgets", fails=True)
    kubectl("delete", "configmaps", "-l", f"list={name}")


def test_kubectl_get_watch_prints_table_rows(
    kubectl: Kubectl, environment: dict[str, str], name: str
) -> None:
    kubectl("create", "configmap", name)
    command = ["kubectl", "get", "configmap", name, "--watch", "--output-watch-events"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        # Once the list is shown, no later event is missed.
        assert process.stdout.readline().split() == ["EVENT", "NAME", "DATA", "AGE"]
        assert process.stdout.readline().split()[:3] == ["ADDED", name, "0"]
        kubectl("patch", "configmap", name, "-p", '{"data":{"a":"b"}}')
        assert process.stdout.readline().split()[:3] == ["MODIFIED", name, "1"]
        kubectl("delete", "configmap", name)
        assert process.stdout.readline().split()[:3] == ["DELETED", name, "1"]
        process.terminate()


def test_nodes_are_cordoned_tainted_and_drained(kubectl: Kubectl, name: str) -> None:
    kubectl("create", stdin=deployment(name, 2))
    kubectl("rollout", "status", f"deploy/{name}", "--timeout=60s")
    kubectl("create", "poddisruptionbudget", name, f"--selector=app={name}", "--max-unavailable=1")
    kubectl("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", f"pdb/{name}", "--timeout=60s")
    kubectl("cordon", "node-1")
    assert "SchedulingDisabled" in kubectl("get", "node", "node-1")
    assert "drained" in kubectl("drain", "node-1", "--ignore-daemonsets", "--force", "--delete-emptydir-data")
    kubectl("rollout", "status", f"deploy/{name}", "--timeout=60s")
    where = kubectl("get", "pods", "-l", f"app={name}", "-o", "jsonpath={.items[*].spec.nodeName}")
    assert set(where.split()) == {"node-0"}
    kubectl("uncordon", "node-1")
    kubectl("taint", "node", "node-1", "a=b:NoSchedule")
    assert "a=b:NoSchedule" in kubectl("describe", "node", "node-1")
    kubectl("taint", "node", "node-1", "a-")
    kubectl("delete", "deploy,pdb", name)


def test_errors_are_reported_as_by_kubernetes(kubectl: Kubectl, name: str) -> None:
    wrong = claim("Bad_Name")
    wrong["spec"] = {
        "devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "B", "count": -1}}]}
    }
    printed = kubectl("create", stdin=wrong, fails=True)
    assert 'The ResourceClaim "Bad_Name" is invalid' in printed
    assert "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero" in printed
    unknown = {**config_map(name), "nonsense": 1}
    assert 'unknown field "nonsense"' in kubectl("create", stdin=unknown, fails=True)
    kubectl("create", stdin=deployment(name, 0))
    moved = deployment(name, 0)
    moved["spec"]["selector"]["matchLabels"] = moved["spec"]["template"]["metadata"]["labels"] = {"app": "z"}
    assert "field is immutable" in kubectl("apply", stdin=moved, fails=True)


def test_deleting_a_deployment_with_cascade_orphan_keeps_its_replica_set(kubectl: Kubectl, name: str) -> None:
    kubectl("create", stdin=deployment(name, 1))
    kubectl("rollout", "status", f"deploy/{name}", "--timeout=60s")
    kubectl("delete", "deploy", name, "--cascade=orphan")
    (left,) = kubectl("get", "rs", "-l", f"app={name}", "-o", "name").split()
    assert kubectl("get", left, "-o", "jsonpath={.metadata.ownerReferences}") == ""
    kubectl("delete", left, "--cascade=foreground")
    assert kubectl("get", "pods", "-l", f"app={name}", "-o", "name") == ""


_SERVER = "mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www"


@pytest.fixture
def web(kubectl: Kubectl, server: str, name: str) -> Iterator[str]:
    """Create a pod that serves HTTP on port 8080."""
    kubectl("run", name, "--image=busybox", "--port=8080", "--command", "--", "sh", "-c", _SERVER)
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
    # Without a probe it is ready before it listens.
    page = f"{server}/api/v1/namespaces/default/pods/{name}:8080/proxy/"
    blocking_until(lambda: httpx.get(page).is_success)
    yield name
    kubectl("delete", "pod", name, "--now")


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_kubectl_port_forward_reaches_a_port_of_the_pod(
    environment: dict[str, str], web: str, websockets: str
) -> None:
    with subprocess.Popen(
        ["kubectl", "port-forward", f"pod/{web}", ":8080"],
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets},
    ) as forwarding:
        assert forwarding.stdout is not None
        match = re.match(r"Forwarding from 127.0.0.1:(\d+) -> 8080", forwarding.stdout.readline())
        assert match is not None
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{match[1]}/", timeout=30) as answer:
                assert answer.read() == b"hello\n"
        forwarding.terminate()


def test_files_are_copied_to_and_from_a_pod(kubectl: Kubectl, web: str, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    (sent / "sub").mkdir(parents=True)
    (sent / "binary").write_bytes(bytes(range(256)) * 100)
    (sent / "sub" / "text").write_text("hi")
    kubectl("cp", str(sent), f"{web}:/tmp/")
    assert kubectl("exec", web, "--", "cat", "/tmp/sent/sub/text") == "hi"
    kubectl("cp", f"{web}:/tmp/sent", str(tmp_path / "back"))
    assert (tmp_path / "back" / "binary").read_bytes() == (sent / "binary").read_bytes()
    assert (tmp_path / "back" / "sub" / "text").read_text() == "hi"


def test_a_pod_and_its_service_are_reachable_through_the_proxy(kubectl: Kubectl, web: str) -> None:
    kubectl("expose", "pod", web, "--port=80", "--target-port=8080")
    for path in (f"pods/{web}/proxy/", f"pods/{web}:8080/proxy/index.html", f"services/{web}:80/proxy/"):
        assert kubectl("get", "--raw", f"/api/v1/namespaces/default/{path}") == "hello\n"
    kubectl("delete", "service", web)
    assert kubectl("get", "--raw", "/api/v1/nodes/node-0/proxy/healthz") == "ok"
