"""Measure everyday waiting times: a fresh cluster in a test, a reset, ``get pods``, many tests, an installation.

Each figure is printed with its goal. ``--install`` builds the distribution and installs it into an empty environment
from its own folder. ``--cpu`` reports CPU time, which hardly depends on other load. It includes child processes, but
only after they have exited.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import uvloop
from dralab.testing import AsyncCluster, Cluster

Clock = Callable[[], float]

_ROOT = Path(__file__).resolve().parents[1]
_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: any, command: [sleep, infinity], resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""
_TESTS = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_a_cluster_of_its_own(dra_cluster, number):
    assert dra_cluster.list("nodes")[0]["metadata"]["name"] == "node-0"
"""
# In milliseconds, except for the last two, which are in seconds.
_GOALS = {
    "fresh_in_process_ms": 150,
    "fresh_as_processes_ms": 1000,
    "reset_ms": 20,
    "get_pods_ms": 150,
    "tests_s": 60,
    "install_to_running_s": 60,
}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one line a figure, or JSON."""
    parser = argparse.ArgumentParser(prog="bench everyday", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how often each figure is measured")
    parser.add_argument(
        "--tests", type=int, default=200, help="tests with a cluster each, on two workers; 0: none"
    )
    parser.add_argument("--install", action="store_true", help="time an installation too")
    parser.add_argument("--cpu", action="store_true", help="count CPU time instead of waiting time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    clock = _cpu if options.cpu else time.perf_counter
    figures = uvloop.run(_clusters(options.runs, clock))
    figures["get_pods_ms"] = _get_pods(options.runs, clock)
    if options.tests:
        figures["tests_s"] = _tests(options.tests, clock)
    if options.install:
        figures["install_to_running_s"] = _install(clock)
    if options.json:
        print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
        return
    for name, value in figures.items():
        text = {"tests_s": f"tests_s ({options.tests} tests with a cluster each)"}.get(name, name)
        print(f"{text}: {value:.0f} (goal {_GOALS[name]})")


def _cpu() -> float:
    """Return the CPU time so far, in seconds."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


async def _clusters(runs: int, clock: Clock) -> dict[str, float]:
    fresh, reset, processes = [], [], []
    # Start one cluster first: it imports the services, which a test session does only once.
    async with AsyncCluster():
        pass
    for _ in range(runs):
        cluster = AsyncCluster()
        fresh.append(await _time_of(cluster.__aenter__, clock))
        await cluster.apply(_POD)
        await cluster.pod("p").wait_for()
        reset.append(await _time_of(cluster.rollback, clock))
        await cluster.__aexit__(None, None, None)
    for _ in range(max(runs // 3, 1)):
        cluster = AsyncCluster(processes=True)
        began = clock()
        await cluster.__aenter__()
        if clock is not _cpu:
            processes.append((clock() - began) * 1000)
        await cluster.__aexit__(None, None, None)
        if clock is _cpu:
            processes.append((clock() - began) * 1000)
    return {
        "fresh_in_process_ms": statistics.median(fresh),
        "fresh_as_processes_ms": statistics.median(processes),
        "reset_ms": statistics.median(reset),
    }


async def _time_of(work: Callable[[], Awaitable[object]], clock: Clock) -> float:
    began = clock()
    await work()
    return (clock() - began) * 1000


def _get_pods(runs: int, clock: Clock) -> float:
    with Cluster() as cluster:
        cluster.apply(_POD)
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "DRALAB_DATA": "/nonexistent"}
        taken = []
        for _ in range(runs):
            began = clock()
            command = [sys.executable, "-m", "dralab", "get", "pods", "--server", cluster.url]
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            taken.append((clock() - began) * 1000)
    return statistics.median(taken)


def _tests(count: int, clock: Clock) -> float:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_it.py").write_text(_TESTS.format(count=count))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            ".",
            ".",
        ]
        began = clock()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return clock() - began


def _install(clock: Clock) -> float:
    """Return the seconds from an empty environment to a running pod. The wheels have been built before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["tools/dist", sys.executable, str(folder / "dist")], cwd=_ROOT, check=True)
        (folder / "pod.yaml").write_text(_POD)
        began = clock()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        python = folder / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(python)]
        wheels = ["--no-index", "--find-links", str(folder / "dist")]
        subprocess.run([*pip, "install", "-q", *wheels, "dralab"], check=True)
        script = f"dralab apply -f {folder / 'pod.yaml'} && dralab logs p"
        path = f"{python.parent}:{os.environ['PATH']}"
        command = [str(python), "-m", "dralab", "run", "--", "sh", "-c", script]
        subprocess.run(command, env={**os.environ, "PATH": path}, check=True, stdout=subprocess.DEVNULL)
        return clock() - began


if __name__ == "__main__":
    main()
