"""NVIDIA's own programs for compute domains, unchanged, in place of the simulated ones; see docs/compute-domains.md."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_node_agent.drivers.nvidia.computedomain.api import NAMESPACE
from dra_node_agent.drivers.nvidia.gates import LAB_DEFAULTS
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.nvml.node import open_system
from dra_shared.yamltext import load

from tests.integration.lab import Lab, Setup, lab
from tests.support.reference import REPOSITORY
from tools.nvml.root import make, make_devices, make_kernel_files

_PROGRAMS = os.environ.get("DRALAB_NVIDIA_PROGRAMS", "")
_CHECKOUT = os.environ.get("DRALAB_NVIDIA_DRIVER", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (_PROGRAMS and _CHECKOUT and Path("/templates").is_dir() and os.geteuid() == 0),
        reason="needs NVIDIA's programs and sources, /templates and root: DRALAB_NVIDIA_PROGRAMS, DRALAB_NVIDIA_DRIVER",
    ),
]
GPUS, NODES = "4xGB200", ("node-0", "node-1")
EXAMPLE = REPOSITORY / "examples" / "compute-domain"
OURS = Setup("nvidia-ours", (), nodes=2, gpus=GPUS)
THEIRS = Setup("nvidia-theirs", ("gpu.nvidia.com",), nodes=2, gpus=GPUS)
_KINDS = {
    "daemon sets": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
    "templates": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "cliques": "/apis/resource.nvidia.com/v1beta1/computedomaincliques",
    "domains": "/apis/resource.nvidia.com/v1beta1/computedomains",
    "slices": "/apis/resource.k8s.io/v1/resourceslices",
}
_PLUGIN = "kubelet/plugins/compute-domain.nvidia.com"
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _chart(folder: Path) -> Path:
    """Return the objects that the chart installs besides the programs."""
    charts = Path(_CHECKOUT, "deployments/helm/dra-driver-nvidia-gpu")
    kinds = "---\n".join(path.read_text() for path in sorted((charts / "crds").glob("*.yaml")))
    names = {"compute-domain-daemon": "daemon", "compute-domain-default-channel": "default-channel"}
    classes = "---\n".join(
        re.sub(r"\{\{.*?resourceApiVersion.*?\}\}", "resource.k8s.io/v1", text)
        for name in names
        for text in [(charts / "templates" / f"deviceclass-{name}.yaml").read_text()]
    )
    classes = re.sub(r"^\{\{.*\}\}\n?", "", classes, flags=re.MULTILINE)
    space = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n---\n"
    account = (
        "apiVersion: v1\nkind: ServiceAccount\n"
        f"metadata: {{name: compute-domain-daemon-service-account, namespace: {NAMESPACE}}}\n---\n"
    )
    path = folder / "chart.yaml"
    path.write_text(kinds + "\n---\n" + space + account + classes)
    return path


@contextlib.contextmanager
def _run_programs(data: Path, folder: Path) -> Iterator[None]:
    """Run the controller, and the plugin on each node."""
    shared = {
        **os.environ,
        "NAMESPACE": NAMESPACE,
        "POD_NAMESPACE": NAMESPACE,
        "POD_NAME": "controller",
        "FEATURE_GATES": LAB_DEFAULTS,
    }
    options = ["--kubeconfig", str(data / "kubeconfig"), "-v", "6"]
    image = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.0"
    commands = [
        (["compute-domain-controller", "--image-name", image, "--log-verbosity-cd-daemon", "4"], shared),
    ]
    for node in NODES:
        root, at = folder / node, data / "nodes" / node
        system = open_system(GPUS, node)
        make(system.gpus, root)
        make_devices(system.gpus, root)
        devices = make_kernel_files(SimulatedHost(system, root), root)
        plugin = {
            "--node-name": node,
            "--kubelet-plugins-directory-path": at / "kubelet/plugins",
            "--kubelet-registrar-directory-path": at / "kubelet/plugins_registry",
            "--cdi-root": at / "cdi",
            "--container-driver-root": root,
            "--nvidia-driver-root": root,
            "--nvidia-cdi-hook-path": root / "usr/bin/nvidia-cdi-hook",
        }
        words = [str(word) for pair in plugin.items() for word in pair]
        environment = {**shared, "ALT_PROC_DEVICES_PATH": str(devices)}
        commands.append((["compute-domain-kubelet-plugin", *words], environment))
    with contextlib.ExitStack() as stack:
        for number, (words, environment) in enumerate(commands):
            log = stack.enter_context((folder / f"{number}.log").open("wb"))
            command = [str(Path(_PROGRAMS, words[0])), *words[1:], *options]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait, 60)
            stack.callback(process.send_signal, signal.SIGTERM)
        yield


async def _objects(house: Lab) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, path in _KINDS.items():
        items = msgspec.json.decode((await house.client.raw("GET", path)).content)["items"]
        found[name] = [
            {"labels": item["metadata"].get("labels"), "finalizers": item["metadata"].get("finalizers"),
             **{key: item[key] for key in ("spec", "status", "daemons") if key in item}}
            for item in items
            if item.get("spec", {}).get("driver", "compute-domain.nvidia.com") == "compute-domain.nvidia.com"
        ]  # fmt: skip
    return found


def _files(data: Path) -> list[Any]:
    """Return the CDI files for claims and the checkpoint of each node."""
    found: list[Any] = []
    for node in NODES:
        for path in sorted((data / "nodes" / node / "cdi").glob("*compute-domain*claim*")):
            spec: Any = load(path.read_bytes()).value
            # The version follows from the first character of the claim's UID.
            found.append({**spec, "cdiVersion": ""})
        checkpoint = json.loads((data / "nodes" / node / _PLUGIN / "checkpoint.json").read_text())
        claims = checkpoint["v2"]["preparedClaims"].values()
        found += sorted(
            ([claim["checkpointState"], list(claim), claim["preparedDevices"]] for claim in claims), key=str
        )
        assert sorted(checkpoint["v1"]["preparedClaims"]) == sorted(checkpoint["v2"]["preparedClaims"])
    return found


def _order(value: Any) -> Any:
    """Sort values without a defined order: the assignment of pods to nodes, and Go maps."""
    if isinstance(value, dict):
        return {key: _order(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return sorted((_order(inner) for inner in value), key=str)
    return value


async def _picture(setup: Setup, folder: Path) -> str:
    """Return all objects and files of the example, without values that differ between runs."""
    data = folder / setup.name
    setup.start(data)
    try:
        if setup is THEIRS:
            # Use a new client, because existing clients do not know the new kinds.
            async with lab(data) as house:
                await house.apply(_chart(folder))
        async with lab(data) as house:
            with _run_programs(data, folder) if setup is THEIRS else contextlib.nullcontext():
                await house.apply(EXAMPLE)
                await house.wait_for_running("compute-domain", "worker-0", "worker-1")

                async def ready() -> bool:
                    (domain,) = (await _objects(house))["domains"]
                    nodes = domain.get("status", {}).get("nodes", [])
                    return [node["status"] for node in nodes] == ["Ready", "Ready"]

                async def describe() -> str:
                    return str(await _objects(house))

                await house.until(ready, describe)
                found = {"objects": await _objects(house), "files": _files(data)}
                for node in ("0", "1"):
                    assert (await house.log("compute-domain", f"worker-{node}", "main")).startswith(
                        "channel0\n"
                    )
                await house.delete(EXAMPLE, seconds=60)
    finally:
        setup.stop(data)
    text = _UID.sub("uid", json.dumps(found)).replace(str(data), "")
    text = re.sub(r'"(ip|ipAddress)": "[0-9.]+"', r'"\1": "ip"', text)
    # The order of the nodes in a clique is a race.
    text = re.sub(r'"index": [01]', '"index": 0', text)
    return json.dumps(_order(json.loads(text)), indent=1)


async def test_nvidias_programs_and_the_simulated_ones_leave_equal_objects_and_files() -> None:
    # The path of a socket has 107 bytes at most, more than pytest's folders leave.
    with tempfile.TemporaryDirectory(prefix="cd") as folder:
        theirs = await _picture(THEIRS, Path(folder))
        ours = await _picture(OURS, Path(folder))
    assert theirs.splitlines() == ours.splitlines()
