"""NVIDIA's demo manifests, applied unchanged. docs/gpu-models.md has the same table."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from dra_kube import manifests
from dra_shared.api.core import Namespace
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod
from dra_shared.api.resources import DEPLOYMENTS, JOBS, NAMESPACES
from dra_shared.errors import UserError

from tests.integration.lab import Lab, Setup, on
from tests.support.reference import REPOSITORY

_DRIVER = os.environ.get("DRALAB_NVIDIA_DRIVER", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _DRIVER, reason="needs NVIDIA's driver's sources: DRALAB_NVIDIA_DRIVER"),
]
_SPECS = Path(_DRIVER, "demo", "specs")
_NVIDIA = ("gpu.nvidia.com",)
_PAGE = REPOSITORY / "docs" / "gpu-models.md"
# Files that no cluster accepts, because nvidia-mig-parted reads them.
_OTHER = ("mig-parted-config.yaml", "sharing-demo-mig-parted-config.yaml")


def _setup(name: str, gpus: str = "", *options: str, drivers: Sequence[str] = _NVIDIA) -> Setup:
    return Setup(f"nvidia-{name}", tuple(drivers), gpus=gpus, options=options)


@dataclass(frozen=True)
class Demo:
    """Manifests that belong together, the cluster that they need, and whether their API is older than v1beta1."""

    setup: Setup
    files: tuple[str, ...]
    classic: bool = False
    namespace: str = ""


DEFAULT = _setup("default")
DYNAMIC = _setup(
    "dynamic", "8xA100-SXM4-40GB:mig", "--nvidia-gates", "DynamicMIG=true,TimeSlicingSettings=true"
)
PASSTHROUGH = _setup("vfio", "", "--nvidia-gates", "PassthroughSupport=true")
FABRIC = _setup(
    "fabric", "8xH100", "--nvidia-gates", "PassthroughSupport=true,FabricManagerPartitioning=true"
)
RACK = Setup("nvidia-rack", (), nodes=2, gpus="4xGB200")


def _shares(value: str) -> Setup:
    gates = ("--nvidia-gates", "ConsumableShares=true")
    return _setup(f"shares-{value}", "", *gates, "--consumable-shares", value)


_BOTH = ("gpu-test1", "gpu-test2", "gpu-test3", "gpu-test4", "gpu-test5", "gpu-test-mps")
RUN = (
    *(Demo(DEFAULT, (f"quickstart/{api}/{name}.yaml",)) for api in ("v1", "v1beta1") for name in _BOTH),
    Demo(DEFAULT, ("quickstart/gpu-test7.yaml",)),
    Demo(DEFAULT, ("quickstart/gpu-test8.yaml",)),
    Demo(DEFAULT, ("extended-resources/gpu-full.yaml",)),
    *(Demo(DYNAMIC, (f"quickstart/{api}/gpu-test4.yaml",)) for api in ("v1", "v1beta1")),
    Demo(PASSTHROUGH, ("quickstart/v1/gpu-test-vfiopci.yaml",)),
    Demo(_shares("unlimited"), ("consumable-shares/unlimited-sharing.yaml",)),
    Demo(_shares("memory"), ("consumable-shares/memory-sharing.yaml",)),
    Demo(_shares("10"), ("consumable-shares/integer-sharing.yaml",)),
    Demo(
        _setup("hopper", "4xGH200", "--nvidia-gates", "DynamicMIG=true"),
        ("extended-resources/mig-1g-12gb.yaml",),
    ),
    Demo(
        _setup("sharing", "4xA100:1g.5gb+1g.5gb+1g.5gb,4xA100"),
        tuple(f"mig+mps/sharing-demo-{part}.yaml" for part in ("parameters", "claims", "job")),
        classic=True,
        namespace="sharing-demo",
    ),
    Demo(
        _setup("sharing", "4xA100:1g.5gb+1g.5gb+1g.5gb,4xA100"),
        tuple(f"mig+mps/sharing-demo-{part}-1.yaml" for part in ("parameters", "claims", "job")),
        classic=True,
        namespace="sharing-demo",
    ),
    Demo(
        _setup("selectors", "4xA100:whole,4xRTX-A2000"),
        tuple(f"selectors/{part}.yaml" for part in ("parameters", "claims", "pods")),
        classic=True,
        namespace="kubecon-demo",
    ),
    Demo(
        FABRIC,
        ("fabric-manager-partitioning/resourceClaimTemplates.yaml", "fabric-manager-partitioning/pod.yaml"),
    ),
    Demo(RACK, ("imex/channel-injection.yaml",)),
    Demo(RACK, ("imex/channel-injection-all.yaml",)),
)
#: The pods of these files stay pending with NVIDIA's current driver, too. Each file has the scheduler's
#: message.
WAIT = {
    "quickstart/v1/gpu-test6.yaml": "no such key: index",
    "quickstart/v1beta1/gpu-test6.yaml": "no such key: index",
    "quickstart/v1/imex-test1.yaml": "device class imex.nvidia.com does not exist",
    "quickstart/v1beta1/imex-test1.yaml": "device class imex.nvidia.com does not exist",
}
_BANDWIDTH = ("job", "job-1", "job-2", "no-compute-domain-job")
#: Files that no current API server accepts unchanged.
REFUSED = {
    **dict.fromkeys((f"imex/nvbandwidth-test-{name}.yaml" for name in _BANDWIDTH), "MPIJob"),
    "quickstart/v1beta1/gpu-test-vfiopci.yaml": "",
    "quickstart/v1/gpu-test-vfio-config.yaml": "",
}


def _id(demo: Demo) -> str:
    return f"{demo.setup.name}-{demo.files[-1]}"


@pytest.mark.parametrize(("cluster", "demo"), [(demo.setup, demo) for demo in RUN], indirect=["cluster"],
                         ids=map(_id, RUN))  # fmt: skip
async def test_the_pods_of_each_supported_nvidia_demo_run(house: Lab, demo: Demo, tmp_path: Path) -> None:
    files = [_SPECS / name for name in demo.files]
    if demo.classic:
        files = [_convert(files, tmp_path / "today.yaml")]
    if demo.namespace:
        await house.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=demo.namespace)))
    await house.apply(*files)
    spaces = _namespaces(files) | ({demo.namespace} if demo.namespace else set())
    await house.until(lambda: _all_run(house, spaces), lambda: _describe(house, spaces), 90)
    # Some of their programs do not exit on SIGTERM: half a minute each.
    await house.delete(*files, missing_ok=True, seconds=90)


@on(DEFAULT)
@pytest.mark.parametrize("name", WAIT)
async def test_pods_of_an_unsupported_demo_stay_pending(house: Lab, name: str) -> None:
    await house.apply(_SPECS / name)
    (space,) = _namespaces([_SPECS / name])

    async def is_rejected() -> bool | None:
        pods = (await house.pods(space)).values()
        messages = [one.message or "" for pod in pods for one in pod.status.conditions]
        return any(WAIT[name] in message for message in messages) or None

    await house.until(is_rejected, lambda: _describe(house, {space}))
    await house.delete(_SPECS / name)


@on(RACK)
@pytest.mark.parametrize("name", [name for name, kind in REFUSED.items() if kind])
async def test_an_nvidia_demo_that_no_api_server_accepts_is_rejected(house: Lab, name: str) -> None:
    with pytest.raises(UserError, match=REFUSED[name]):
        await house.apply(_SPECS / name)


def test_every_demo_manifest_has_a_test() -> None:
    known = {name for demo in RUN for name in demo.files} | set(WAIT) | set(REFUSED)
    there = {str(path.relative_to(_SPECS)) for path in _SPECS.rglob("*.yaml") if path.name not in _OTHER}
    assert there == known


def test_the_page_lists_the_demos_that_do_not_run() -> None:
    page = _PAGE.read_text()
    for name in {*WAIT, *REFUSED}:
        assert ("nvbandwidth" if "nvbandwidth" in name else Path(name).stem) in page, name


def _convert(files: list[Path], into: Path) -> Path:
    words = [sys.executable, "-m", "dra_cli.main", "convert", *map(str, files)]
    into.write_text(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return into


def _namespaces(files: Sequence[Path]) -> set[str]:
    loaded = manifests.load([str(file) for file in files])
    named = {obj["metadata"]["name"] for obj in loaded if obj["kind"] == "Namespace"}
    return named | {obj["metadata"]["namespace"] for obj in loaded if "namespace" in obj["metadata"]} or {
        "default"
    }


async def _all_run(house: Lab, spaces: set[str]) -> bool | None:
    """True if each namespace has the pods that its workloads request, and all of them run or have succeeded."""
    found = 0
    for space in spaces:
        pods = list((await house.pods(space)).values())
        found += len(pods)
        if not all(map(_is_fine, pods)):
            return None
        deployments = (await house.client.list(DEPLOYMENTS, space)).items
        if any((one.status.ready_replicas or 0) != one.spec.replicas for one in deployments):
            return None
        jobs = (await house.client.list(JOBS, space)).items
        if any(
            (one.status.ready or 0) + (one.status.succeeded or 0) < (one.spec.parallelism or 1)
            for one in jobs
        ):
            return None
    return found > 0 or None


def _is_fine(pod: Pod) -> bool:
    ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
    return pod.status.phase == "Succeeded" or ready


async def _describe(house: Lab, spaces: set[str]) -> str:
    pods = [pod for space in spaces for pod in (await house.pods(space)).values()]
    return "\n".join(
        f"{pod.key}: {pod.status.phase} {[one.message for one in pod.status.conditions if one.message]}"
        for pod in pods
    )
