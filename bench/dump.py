"""Measure the time and memory for reading the dump of a large cluster, as ``kubectl get -o json`` writes it.

Every pod has an allocated claim. Two questions to the planner are measured on the world that was read, because the
first one also fills caches.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from dra_shared.api.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject
from dralab import World

from bench._workloads import CLASS, DRIVER, WORKLOADS

_SPACES = 50
_MANAGED: JsonObject = {
    f"f:{field}": {".": {}, "f:name": {}, "f:value": {}} for field in ("spec", "status", "metadata")
}


def _object(version: str, kind: str, name: str, namespace: str = "", **parts: JsonObject) -> JsonObject:
    meta: JsonObject = {
        "name": name,
        "uid": f"{kind}-{name}",
        "resourceVersion": "7",
        "labels": {"app": name[-2:]},
    }
    meta |= {"namespace": namespace} if namespace else {}
    meta["managedFields"] = [
        {"manager": each, "fieldsV1": _MANAGED} for each in ("kube-scheduler", "kubelet")
    ]
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


def _node(name: str) -> JsonObject:
    amounts = {"cpu": "192", "memory": "2048Gi", "pods": "250"}
    images = [{"names": [f"registry.example.com/image-{i}:v1"], "sizeBytes": i << 20} for i in range(20)]
    conditions = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    ]
    status = {"capacity": amounts, "allocatable": amounts, "images": images, "conditions": conditions}
    return _object("v1", "Node", name, status=status)


def _pod(index: int, node: str) -> JsonObject:
    name = f"pod-{index:06}"
    environment = [{"name": letter, "value": "some value"} for letter in "ABCDEFGH"]
    container: JsonObject = {"name": "main", "image": "registry.example.com/image-3:v1", "env": environment}
    container["resources"] = {"claims": [{"name": "gpu"}], "requests": {"cpu": "2", "memory": "8Gi"}}
    spec: JsonObject = {"nodeName": node, "schedulerName": "default-scheduler", "containers": [container]}
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    status: JsonObject = {"phase": "Running", "podIP": "10.0.0.3", "startTime": "2026-01-01T00:00:00Z"}
    status["containerStatuses"] = [
        {"name": "main", "ready": True, "containerID": f"containerd://{index:064x}"}
    ]
    return _object("v1", "Pod", name, f"team-{index % _SPACES}", spec=spec, status=status)


def _claim(index: int, node: str, device: str, spec: JsonObject) -> JsonObject:
    name = f"pod-{index:06}"
    result = {"request": "req-0", "driver": DRIVER, "pool": node, "device": device}
    reserved = [{"resource": "pods", "name": name, "uid": f"Pod-{name}"}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    version, kind = RESOURCE_CLAIMS.api_version, RESOURCE_CLAIMS.kind
    return _object(version, kind, name, f"team-{index % _SPACES}", spec=spec, status=status)


def _objects(nodes: int, devices: int, pods: int) -> Iterator[JsonObject]:
    work = WORKLOADS["template"]
    assert work.claim is not None
    names = [f"node-{index:05}" for index in range(nodes)]
    yield _object("resource.k8s.io/v1", "DeviceClass", CLASS, spec=work.device_class)
    for name in names:
        yield _node(name)
        for piece in work.slices(name, devices):
            spec = piece["spec"]
            yield _object(RESOURCE_SLICES.api_version, RESOURCE_SLICES.kind, f"{name}-devices", spec=spec)
    for index in range(pods):
        node, device = names[index % nodes], index // nodes
        yield _pod(index, node)
        if device < devices:
            yield _claim(index, node, f"device-{device}", work.claim)


def _write(path: Path, objects: Iterator[JsonObject], indent: int) -> None:
    """Write a list as kubectl does: keys in order, the list's kind at the end."""
    line, own = ("\n" if indent else ""), " " * indent
    with path.open("w") as file:
        file.write(f'{{{line}{own}"apiVersion": "v1",{line}{own}"items": [')
        for number, obj in enumerate(objects):
            text = json.dumps(obj, indent=indent or None, sort_keys=True).replace("\n", f"\n{own}{own}")
            file.write(f"{',' if number else ''}{line}{own}{own}{text}")
        file.write(f'{line}{own}],{line}{own}"kind": "List"{line}}}')


def measure(path: Path, pods: int) -> JsonObject:
    """Read the file, and return the figures."""
    started, cpu = time.perf_counter(), time.process_time()
    world = World.load(path)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    first = time.process_time()
    world.explain("pod-000000", "team-0")
    second = time.process_time()
    world.explain(f"pod-{pods - 1:06}", f"team-{(pods - 1) % _SPACES}")
    return {
        "benchmark": "dump",
        "objects": len(world),
        "mebibytes": path.stat().st_size >> 20,
        "seconds": round(seconds, 2),
        "cpuSeconds": round(cpu, 2),
        "firstQuestionCPUSeconds": round(second - first, 3),
        "secondQuestionCPUSeconds": round(time.process_time() - second, 3),
        "peakMebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def main(arguments: list[str] | None = None) -> None:
    """Write a dump, and read it."""
    options = argparse.ArgumentParser(prog="bench dump", description=__doc__)
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--devices-per-node", type=int, default=8)
    options.add_argument("--pods", type=int, default=40000)
    options.add_argument("--indent", type=int, default=4, help="the indent of the JSON; 0: none (4)")
    options.add_argument("--json", action="store_true", help="one JSON object instead of a sentence")
    chosen = options.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="dralab-bench-") as folder:
        path = Path(folder) / "dump.json"
        _write(path, _objects(chosen.nodes, chosen.devices_per_node, chosen.pods), chosen.indent)
        figures = measure(path, chosen.pods)
    if chosen.json:
        print(json.dumps(figures))
        return
    print(
        f"{figures['objects']} objects, {figures['mebibytes']} MiB: read in {figures['seconds']} s, "
        f"{figures['cpuSeconds']} s of CPU, {figures['peakMebibytes']} MiB at most; a question "
        f"{figures['firstQuestionCPUSeconds']} s, the next {figures['secondQuestionCPUSeconds']} s of CPU"
    )


if __name__ == "__main__":
    main()
