"""Behaviour of containers by image: known programs, user-defined programs, and unknown programs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.cdi import CdiDevice, ContainerEdits, DeviceNode, Spec, write_spec
from dra_node_agent.runtime.base import (
    ContainerRecord,
    ContainerSpec,
    LogOptions,
    RuntimeFailure,
    SandboxSpec,
    State,
)
from dra_node_agent.runtime.fake import FakeRuntime
from dra_node_agent.runtime.images import Images, ImagesError, load_images
from dra_shared.clock import FakeClock, settle

_VECTOR_ADD = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04"
_DONE = "is not simulated, and counts as done (see docs/node-agent.md, Images)\n"
_GOES_ON = "is not simulated, and runs until it is asked to stop (see docs/node-agent.md, Images)\n"
_UNFINISHED = (
    "is not simulated: the container runs until it is asked to stop, so that its pod does not count as succeeded "
    "(see docs/node-agent.md, Images)\n"
)


class _Containers:
    """Containers of one fake runtime."""

    def __init__(self, folder: Path, images: Images | None = None) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.runtime = FakeRuntime(folder / "runtime", folder / "cdi", self.clock, images=images)

    async def run(self, image: str, *command: str, **options: Any) -> ContainerRecord:
        spec = ContainerSpec("ns", "pod", "uid", "main", 0, image, command=list(command), **options)
        container_id = await self.runtime.run(spec)
        for _ in range(10):
            await settle()
            await self.clock.advance(1)
        await settle()
        return next(record for record in self.runtime.containers() if record.id == container_id)

    async def log(self, record: ContainerRecord) -> str:
        pieces = [piece async for piece in self.runtime.logs(record.id, LogOptions())]
        return b"".join(pieces).decode()


@asynccontextmanager
async def _containers(folder: Path, images: Images | None = None) -> AsyncIterator[_Containers]:
    made = _Containers(folder, images)
    await made.runtime.start()
    try:
        yield made
    finally:
        await made.runtime.close()


@pytest.mark.parametrize(
    "image", [_VECTOR_ADD, f"{_VECTOR_ADD}@sha256:{'0' * 64}", "k8s.gcr.io/cuda-vector-add:v0.1"]
)
async def test_vectoradd_passes_with_a_gpu(tmp_path: Path, image: str) -> None:
    edits = ContainerEdits(device_nodes=(DeviceNode(path="/dev/nvidiactl"), DeviceNode(path="/dev/nvidia0")))
    spec = Spec(kind="k8s.gpu.nvidia.com/claim", devices=(CdiDevice(name="gpu", container_edits=edits),))
    write_spec(tmp_path / "cdi", "claim", spec)
    async with _containers(tmp_path) as containers:
        record = await containers.run(image, cdi_device_ids=["k8s.gpu.nvidia.com/claim=gpu"], to_end=True)
        assert (record.state, record.exit_code) == (State.EXITED, 0)
        log = (await containers.log(record)).splitlines()
        assert (log[0], log[-2:]) == ("[Vector addition of 50000 elements]", ["Test PASSED", "Done"])


async def test_vectoradd_fails_without_a_gpu(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        record = await containers.run(_VECTOR_ADD)
        assert (record.state, record.exit_code) == (State.EXITED, 1)
        assert "CUDA driver version is insufficient" in await containers.log(record)


async def test_an_unknown_program_runs_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        server = await containers.run("any", "python3", "serve.py")
        assert (server.state, server.unsimulated) == (State.RUNNING, "python3 serve.py")
        assert await containers.log(server) == f"dralab: python3 serve.py {_GOES_ON}"
        job = await containers.run("any", "python3", "-c", "import torch", to_end=True)
        assert (job.state, job.unsimulated) == (State.RUNNING, "python3 -c 'import torch'")
        assert await containers.log(job) == f"dralab: python3 -c 'import torch' {_GOES_ON}"
        await containers.runtime.stop(job.id, 30)
        assert job.exit_code == 143, "its pod has not succeeded"
        preparation = await containers.run("any", "python3", "prepare.py", to_end=True, init=True)
        assert (preparation.state, preparation.exit_code) == (State.EXITED, 0)
        assert await containers.log(preparation) == f"dralab: python3 prepare.py {_DONE}"
        image = await containers.run("example.com/serve:latest", args=["--model", "x"])
        assert image.state is State.RUNNING
        assert await containers.log(image) == f"dralab: the image example.com/serve:latest {_GOES_ON}"


async def test_unknown_programs_of_a_script_count_as_done_and_the_last_keeps_running(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        script = "for n in 1 2; do apt-get update; done && echo between; python3 serve.py"
        server = await containers.run("any", "sh", "-c", script)
        assert server.state is State.RUNNING
        shown = [f"dralab: apt-get update {_DONE}", "between\n", f"dralab: python3 serve.py {_DONE}"]
        assert await containers.log(server) == "".join(shown)
        await containers.runtime.stop(server.id, 30)
        assert server.exit_code == 0
        background = await containers.run("any", "sh", "-c", "python3 serve.py & wait")
        assert background.state is State.RUNNING


async def test_a_script_with_an_unknown_program_does_not_succeed(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        job = await containers.run("any", "sh", "-c", "python3 train.py && echo trained", to_end=True)
        assert (job.state, job.unsimulated) == (State.RUNNING, "python3 train.py")
        shown = [f"dralab: python3 train.py {_DONE}", "trained\n"]
        last = f"dralab: the script has ended, but python3 train.py {_UNFINISHED}"
        assert await containers.log(job) == "".join([*shown, last])
        failed = await containers.run("any", "sh", "-c", "python3 train.py; exit 3", to_end=True)
        assert (failed.state, failed.exit_code) == (State.EXITED, 3)


async def test_a_script_that_only_installs_programs_succeeds(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        script = "apt-get update && pip install torch && echo installed"
        job = await containers.run("any", "sh", "-c", script, to_end=True)
        assert (job.state, job.exit_code, job.unsimulated) == (State.EXITED, 0, "")


async def test_annotations_say_when_and_how_an_unknown_program_ends(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        seconds = {"dralab.dev/run-seconds": "5"}
        job = await containers.run("any", "python3", "train.py", to_end=True, annotations=seconds)
        assert (job.state, job.exit_code, job.unsimulated) == (State.EXITED, 0, "")
        assert job.finished_at is not None
        assert job.started_at is not None
        assert (job.finished_at - job.started_at).total_seconds() == 5
        code = {"dralab.dev/exit-code": "3"}
        job = await containers.run("any", "python3", "train.py", to_end=True, annotations=code)
        assert (job.state, job.exit_code) == (State.EXITED, 3)


async def test_strict_images_refuse_programs_that_nothing_simulates(tmp_path: Path) -> None:
    async with _containers(tmp_path, load_images(strict=True)) as containers:
        for image, command in (("any", ("python3", "train.py")), ("example.com/serve", ())):
            with pytest.raises(
                RuntimeFailure, match="is not simulated, and --images strict refuses it"
            ) as refusal:
                await containers.run(image, *command)
            assert refusal.value.reason == "CreateContainerError"
        script = await containers.run("any", "sh", "-c", "python3 train.py", to_end=True)
        assert (script.state, script.exit_code) == (State.EXITED, 127)
        assert (await containers.run("dralab/sleeper")).state is State.RUNNING
        annotations = {"dralab.dev/script": "echo mine"}
        assert (await containers.run("any", "python3", annotations=annotations)).exit_code == 0


async def test_images_whose_program_waits_keep_running(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        for command in (["tail", "-f", "/dev/null"], ["sleep", "infinity"]):
            assert (await containers.run("any", *command)).state is State.RUNNING
        sleeper = await containers.run("dralab/sleeper")
        assert sleeper.state is State.RUNNING
        await containers.runtime.stop(sleeper.id, 30)
        assert sleeper.exit_code == 0, "it heeds SIGTERM"


async def test_images_that_simulate_a_failure_end_with_the_requested_exit_code(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        failed = await containers.run("dralab/failure", args=["7"])
        assert failed.exit_code == 7
        assert await containers.log(failed) == "failing with code 7\n"


async def test_server_images_listen_on_their_port(tmp_path: Path) -> None:
    async with _containers(tmp_path) as containers:
        await containers.runtime.create_sandbox(SandboxSpec("ns", "pod", "uid"))
        for image, port, text in (
            ("dralab/server", 8080, b"hello from dralab"),
            ("docker.io/library/nginx:1.27", 80, b"Welcome to nginx!"),
        ):
            record = await containers.run(image)
            assert record.state is State.RUNNING
            reader, writer = await containers.runtime.connect("uid", port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert text in await reader.read()
            writer.close()
        echo = await containers.run("hashicorp/http-echo", args=["-text=ok", "-listen=:9000"])
        reader, writer = await containers.runtime.connect("uid", 9000)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()
        await containers.runtime.stop(echo.id, 30)


async def test_an_annotation_replaces_the_command_of_a_container(tmp_path: Path) -> None:
    annotations = {"dralab.dev/script": "echo all; exit 3", "dralab.dev/script.main": "echo mine; exit 4"}
    async with _containers(tmp_path) as containers:
        record = await containers.run("any", "python3", annotations=annotations)
        assert record.exit_code == 4
        assert await containers.log(record) == "mine\n"


_OWN = """
images:
- names: [registry.example.com/train, "*/cuda-sample:vectoradd*"]
  entrypoint: [train]
  args: ["3"]
  files: {/etc/motd: "hi\\n"}
  programs:
    train: |
      cat /etc/motd
      for epoch in $(seq $1); do echo "epoch $epoch"; done
"""


async def test_images_of_users_take_precedence(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(_OWN)
    async with _containers(tmp_path, load_images([path])) as containers:
        record = await containers.run("registry.example.com/train:v1", to_end=True)
        assert await containers.log(record) == "hi\nepoch 1\nepoch 2\nepoch 3\n"
        record = await containers.run(_VECTOR_ADD, args=["1"], to_end=True)
        assert await containers.log(record) == "hi\nepoch 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("images: [{names: [x], colour: red}]", "unknown field `colour`"),
        ("images: {}", "Expected `array`"),
        ("- [", "images "),
    ],
)
def test_an_invalid_images_file_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(text)
    with pytest.raises(ImagesError, match=message):
        load_images([path])
    with pytest.raises(ImagesError, match="cannot read images"):
        load_images([tmp_path / "missing.yaml"])
