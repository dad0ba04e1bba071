"""The programs of every image: their output with a container's devices, and their failure without devices."""

from pathlib import Path

import pytest
from dra_node_agent.runtime.base import ContainerSpec, LogOptions, State
from dra_node_agent.runtime.fake import FakeRuntime
from dra_node_agent.runtime.images import load_images
from dra_node_agent.runtime.shell.syntax import parse
from dra_shared.clock import FakeClock, settle

from tests.support.cases import each_case

_NONE = """
programs: {dralab-accelerators: "true", nvidia-smi: "false"}
"""
_GPUS = """
programs:
  dralab-accelerators: "echo NVIDIA H100; echo NVIDIA H100"
  nvidia-smi: |
    echo "0, NVIDIA H100"
    echo "1, NVIDIA H100"
"""


@each_case("name", load_images().programs)
def test_the_simulated_program_of_each_image_is_a_valid_shell_script(name: str) -> None:
    parse(load_images().programs[name])


async def _run(
    folder: Path, *command: str, devices: bool = True, seconds: int = 10
) -> tuple[int | None, str]:
    """Return the exit code, None if it still runs, and the log of a container with two GPUs, or without."""
    (folder / "gpus.yaml").write_text(_GPUS if devices else _NONE)
    clock = FakeClock()
    images = load_images([folder / "gpus.yaml"])
    runtime = FakeRuntime(folder / "runtime", folder / "cdi", clock, images=images)
    await runtime.start()
    try:
        spec = ContainerSpec(
            "ns", "pod", "uid", "main", 0, "any", command=command, hostname="pod", to_end=True
        )
        container_id = await runtime.run(spec)
        for _ in range(seconds):
            await settle()
            await clock.advance(1)
        await settle()
        (record,) = runtime.containers()
        log = b"".join([piece async for piece in runtime.logs(container_id, LogOptions())]).decode()
        return record.exit_code if record.state is State.EXITED else None, log
    finally:
        await runtime.close()


async def test_torchrun_prints_ranks_works_and_ends(tmp_path: Path) -> None:
    code, log = await _run(
        tmp_path, "torchrun", "--nnodes=2", "--node_rank", "1", "--nproc-per-node=2", "t.py"
    )
    assert code == 0
    assert log.splitlines() == [
        "t.py: world size 4, node 1 of 2",
        "[rank2]: local rank 0 on NVIDIA H100",
        "[rank3]: local rank 1 on NVIDIA H100",
        "t.py: done",
    ]
    code, log = await _run(tmp_path, "torchrun", "--nproc-per-node", "4", "t.py")
    assert (code, "invalid device ordinal" in log) == (1, True)


async def test_vllm_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    code, log = await _run(tmp_path, "vllm", "serve", "--tensor_parallel_size", "2", "--port=8001", "llama")
    assert code is None
    assert "INFO [gpu_worker.py] loading llama on NVIDIA H100" in log
    assert log.splitlines()[-1].endswith("Starting vLLM API server on http://0.0.0.0:8001")


async def test_vllm_fails_with_fewer_accelerators_than_it_needs(tmp_path: Path) -> None:
    code, log = await _run(tmp_path, "vllm", "serve", "llama", "-tp", "4")
    assert (code, "World size (4) is larger" in log) == (1, True)
    code, log = await _run(tmp_path, "vllm", "serve", "llama", devices=False)
    assert (code, "no accelerator" in log) == (1, True)


async def test_mpirun_runs_its_program_once_for_all_ranks(tmp_path: Path) -> None:
    words = (
        "mpirun",
        "--allow-run-as-root",
        "-np",
        "2",
        "-x",
        "A",
        "all_reduce_perf",
        "-b",
        "1M",
        "-e",
        "4M",
    )
    code, log = await _run(tmp_path, *words, "-f", "2")
    assert code == 0
    assert [line for line in log.splitlines() if "Rank" in line] == [
        "#  Rank 0 Group 0 on pod device 0 NVIDIA H100",
        "#  Rank 1 Group 0 on pod device 1 NVIDIA H100",
    ]
    assert [line.split()[0] for line in log.splitlines() if line.endswith(" 0")] == [
        "1048576",
        "2097152",
        "4194304",
    ]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("all_reduce_perf",), "no CUDA-capable device is detected"),
        (("nvbandwidth",), "no CUDA-capable device is detected"),
        (("ray", "up"), "up is not simulated"),
        (("mpirun", "-np", "2"), "no executable was given"),
    ],
)
async def test_a_program_fails_without_devices_or_with_unknown_words(
    tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    code, log = await _run(tmp_path, *command, devices=False)
    assert code
    assert message in log


async def test_a_ray_head_runs_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    code, log = await _run(tmp_path, "sh", "-c", "ulimit -n 65536; ray start --head --block")
    assert code is None
    assert "2 of NVIDIA H100" in log
