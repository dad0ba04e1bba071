"""The docker runtime on a real engine. Skipped if there is none."""

import asyncio
import io
import os
import tarfile
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dra_driverkit.cdi import (
    CdiDevice,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
    NetDevice,
    Spec,
    write_spec,
)
from dra_node_agent.runtime import dockercontainer
from dra_node_agent.runtime.base import (
    Consumption,
    ContainerSpec,
    LogOptions,
    RuntimeFailure,
    SandboxSpec,
    State,
    TerminalSize,
)
from dra_node_agent.runtime.docker import DockerRuntime
from dra_node_agent.runtime.dockerinjection import injection_of, library_path
from dra_shared.clock import SystemClock

from tests.support.waiting import until

_IMAGE = os.environ.get("DRALAB_TEST_IMAGE", "")
_engine = pytest.mark.skipif(
    not (_IMAGE and os.environ.get("DOCKER_HOST")),
    reason="needs a container engine: set DOCKER_HOST and DRALAB_TEST_IMAGE",
)
_WAITER = "trap 'exit 0' TERM; sleep 9999 & wait"
#: Prints that it exits on SIGTERM.
_TALKER = "trap 'exit 0' TERM; echo one; sleep 9999 & wait"


@asynccontextmanager
async def _runtime(cdi: Path, node: str | None = None) -> AsyncIterator[DockerRuntime]:
    name = node or f"test-{uuid.uuid4().hex[:8]}"
    network = os.environ.get("DRALAB_TEST_NETWORK", "none")
    runtime = DockerRuntime(name, cdi, SystemClock(), network=network)
    await runtime.start()
    try:
        yield runtime
    finally:
        if node is None:
            for uid in {record.pod_uid for record in runtime.containers()}:
                await runtime.remove_sandbox(uid)
        await runtime.close()


def _spec(script: str, **options: Any) -> ContainerSpec:
    uid = options.pop("pod_uid", uuid.uuid4().hex)
    values: dict[str, Any] = {
        "namespace": "ns",
        "pod": "pod",
        "pod_uid": uid,
        "name": "main",
        "attempt": 0,
        "image": _IMAGE,
        "command": ["sh", "-c", script],
        **options,
    }
    return ContainerSpec(**values)


async def _log(runtime: DockerRuntime, container_id: str, **options: Any) -> str:
    return b"".join([p async for p in runtime.logs(container_id, LogOptions(**options))]).decode()


def _state(runtime: DockerRuntime, container_id: str) -> Any:
    return next(record for record in runtime.containers() if record.id == container_id)


@_engine
async def test_a_container_runs_and_ends(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        seen: list[State] = []
        runtime.on_change(lambda record: seen.append(record.state))
        container_id = await runtime.run(_spec("echo hello $NAME; exit 3", env={"NAME": "you"}))
        await until(lambda: _state(runtime, container_id).state is State.EXITED)
        record = _state(runtime, container_id)
        assert (record.exit_code, record.reason, record.name, record.pod) == (3, "Error", "main", "pod")
        assert record.finished_at is not None
        assert State.EXITED in seen
        assert await _log(runtime, container_id) == "hello you\n"


@_engine
async def test_stop_lets_the_container_handle_the_signal(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        container_id = await runtime.run(_spec(_TALKER))
        await until(lambda: _log(runtime, container_id))
        await runtime.stop(container_id, 10)
        assert _state(runtime, container_id).exit_code == 0


@_engine
async def test_commands_are_executed_and_the_log_is_followed(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        container_id = await runtime.run(_spec(_TALKER))
        assert await runtime.exec(container_id, ["sh", "-c", "echo inside; exit 4"]) == (4, b"inside\n")
        pieces = aiter(runtime.logs(container_id, LogOptions(follow=True)))
        assert await anext(pieces) == b"one\n"
        await runtime.stop(container_id, 10)
        assert [piece async for piece in pieces] == []
        assert await _log(runtime, container_id, limit_bytes=2) == "on"


@_engine
async def test_devices_are_injected_through_cdi(tmp_path: Path) -> None:
    cdi = tmp_path / "cdi"
    library = tmp_path / "lib.conf"
    library.write_text("fast\n")
    edits = ContainerEdits(
        env=("GPU=7",),
        device_nodes=(DeviceNode(path="/dev/full", host_path="/dev/full"), DeviceNode(path="/dev/nvidia7")),
        mounts=(Mount(host_path=str(library), container_path="/etc/lib.conf", options=("ro",)),),
    )
    spec = Spec(kind="vendor.example.com/gpu", devices=(CdiDevice(name="gpu7", container_edits=edits),))
    write_spec(cdi, "vendor", spec)
    async with _runtime(cdi) as runtime:
        script = "echo $GPU; cat /etc/lib.conf; ls /dev/full"
        container_id = await runtime.run(_spec(script, cdi_device_ids=["vendor.example.com/gpu=gpu7"]))
        await until(lambda: _state(runtime, container_id).state is State.EXITED)
        assert await _log(runtime, container_id) == "7\nfast\n/dev/full\n"
        with pytest.raises(RuntimeFailure, match="unresolvable CDI devices"):
            await runtime.run(_spec("true", cdi_device_ids=["vendor.example.com/gpu=gpu8"]))


@_engine
async def test_containers_are_found_after_a_restart(tmp_path: Path) -> None:
    node = f"test-{uuid.uuid4().hex[:8]}"
    async with _runtime(tmp_path, node) as runtime:
        spec = _spec(_WAITER)
        container_id = await runtime.run(spec)
    async with _runtime(tmp_path, node) as runtime:
        assert _state(runtime, container_id).state is State.RUNNING
        await runtime.remove_sandbox(spec.pod_uid)
        assert list(runtime.containers()) == []


@_engine
async def test_missing_images_are_reported(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        with pytest.raises(RuntimeFailure, match="is not present with pull policy of Never"):
            await runtime.pull("localhost/dralab-no-such-image:1", "Never")
        assert (await runtime.pull(_IMAGE, "IfNotPresent")).pulled_seconds is None
        with pytest.raises(RuntimeFailure) as raised:
            await runtime.run(_spec("true", image="localhost/dralab-no-such-image:1"))
        assert raised.value.reason == "CreateContainerError"


@_engine
async def test_a_sandbox_on_the_host_network_has_its_address(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        assert await runtime.create_sandbox(SandboxSpec("ns", "pod", "uid", host_network=True)) == "127.0.0.1"


def test_an_unreachable_engine_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no container engine: "):
        DockerRuntime("node", tmp_path, SystemClock(), base_url=f"unix://{tmp_path}/none.sock")


def test_devices_and_mounts_that_the_host_lacks_are_omitted(tmp_path: Path) -> None:
    present = tmp_path / "present"
    present.touch()
    edits = ContainerEdits(
        env=("A=1",),
        device_nodes=(DeviceNode(path="/dev/null"), DeviceNode(path="/dev/no-such-device")),
        mounts=(
            Mount(host_path=str(present), container_path="/present"),
            Mount(host_path=str(tmp_path / "absent"), container_path="/absent"),
        ),
    )
    injection = injection_of(edits)
    assert injection.add_to({"environment": {"B": "2"}, "volumes": [], "devices": []}) == {
        "environment": {"B": "2", "A": "1"},
        "volumes": [f"{present}:/present:rw"],
        "devices": ["/dev/null:/dev/null:rwm"],
    }
    assert injection.left_out == (
        f"mount {tmp_path}/absent: the host doesn't have it",
        "device /dev/no-such-device: the host doesn't have it",
    )


def test_cdi_hooks_are_translated_for_the_engine() -> None:
    hook = "/usr/bin/nvidia-cdi-hook"
    edits = ContainerEdits(
        hooks=(
            Hook(
                "createContainer",
                hook,
                ("nvidia-cdi-hook", "create-symlinks", "--link", "libx.so.1::/lib/libx.so"),
            ),
            Hook("createContainer", hook, ("nvidia-cdi-hook", "update-ldcache", "--folder", "/lib/gpu")),
            Hook("createContainer", hook, ("nvidia-cdi-hook", "chmod", "--mode=755", "--path=/dev/dri")),
            Hook("createContainer", hook, ("nvidia-cdi-hook", "disable-device-node-modification")),
            Hook("poststop", "/usr/bin/clean", ("clean", "up")),
        ),
        net_devices=(NetDevice("ib0", "rdma0"),),
        additional_gids=(44, 109),
    )
    injection = injection_of(edits, library_path(["PATH=/bin", "LD_LIBRARY_PATH=/usr/local/lib"]))
    options = injection.add_to({"environment": {}, "volumes": [], "devices": []})
    assert options["group_add"] == ["44", "109"]
    assert options["environment"] == {"LD_LIBRARY_PATH": "/usr/local/lib:/lib/gpu"}
    with tarfile.open(fileobj=io.BytesIO(injection.archive)) as archive:
        link, conf = archive.getmembers()
        assert (link.name, link.linkname, link.issym()) == ("lib/libx.so", "libx.so.1", True)
        content = archive.extractfile(conf)
        assert content is not None
        assert content.read() == b"/lib/gpu\n"
    assert injection.left_out == (
        "network device ib0",
        "mode 755 of /dev/dri",
        "hook disable-device-node-modification",
        "hook clean up",
    )


@_engine
async def test_symbolic_links_of_cdi_hooks_exist_when_the_container_starts(tmp_path: Path) -> None:
    words = ("nvidia-ctk", "hook", "create-symlinks", "--link", "hostname::/etc/linked")
    edits = ContainerEdits(hooks=(Hook("createContainer", "/usr/bin/nvidia-ctk", words),))
    write_spec(
        tmp_path, "vendor", Spec("vendor.example.com/gpu", (CdiDevice("gpu7", container_edits=edits),))
    )
    async with _runtime(tmp_path) as runtime:
        spec = _spec("readlink /etc/linked", cdi_device_ids=["vendor.example.com/gpu=gpu7"])
        container_id = await runtime.run(spec)
        await until(lambda: _state(runtime, container_id).state is State.EXITED)
        assert await _log(runtime, container_id) == "hostname\n"


def test_containers_have_limits_and_names() -> None:
    limited = _spec("true", limits={"memory": "64Mi", "cpu": "1500m"}, image="x", pod_uid="0123456789")
    options = dockercontainer.options(limited, "node")
    assert (options["mem_limit"], options["nano_cpus"]) == (64 << 20, 1_500_000_000)
    assert options["name"] == "dralab_main_pod_ns_01234567_0"
    assert "mem_limit" not in dockercontainer.options(_spec("true", image="x"), "node")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456+00:00"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
        ("2026-01-02T03:04:05.123456789+01:00", "2026-01-02T02:04:05.123456+00:00"),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
    ],
)
def test_timestamps_of_the_container_engine_are_parsed(text: str, expected: str | None) -> None:
    found = dockercontainer.parse_time(text)
    assert (found.isoformat() if found is not None else None) == expected


class _Talk:
    """A client's end of a session. It sends the given input and keeps the output."""

    def __init__(self, *sent: bytes, stdin: bool = True, tty: bool = False) -> None:
        self.stdin, self.tty = stdin, tty
        self.received: dict[bool, bytes] = {False: b"", True: b""}
        self._sent = list(sent)

    async def read(self) -> bytes:
        return self._sent.pop(0) if self._sent else b""

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        self.received[stderr] += data

    def on_resize(self, handler: Callable[[TerminalSize], None]) -> None:
        handler(TerminalSize(100, 30))


@_engine
async def test_exec_sessions_carry_input_output_and_the_exit_code(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        container_id = await runtime.run(_spec(_WAITER))
        talk = _Talk(b"one\n", b"two\n")
        script = "cat; echo wrong >&2; exit 3"
        async with asyncio.timeout(60):
            assert await runtime.exec_session(container_id, ["sh", "-c", script], talk) == 3
        assert talk.received == {False: b"one\ntwo\n", True: b"wrong\n"}
        terminal = _Talk(
            b"echo $((20 + 3))\n", b"until stty size | grep 100; do sleep 0.1; done; exit 4\n", tty=True
        )
        async with asyncio.timeout(60):
            assert await runtime.exec_session(container_id, ["sh"], terminal) == 4
        assert b"23\r\n" in terminal.received[False]
        assert b"30 100\r\n" in terminal.received[False]


@_engine
async def test_attach_follows_the_containers_output(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        container_id = await runtime.run(_spec("for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done"))
        talk = _Talk(stdin=False)
        async with asyncio.timeout(60):
            await runtime.attach(container_id, talk)
        assert talk.received[False].endswith(b"5\n6\n")


def test_statistics_are_computed_as_in_cadvisor() -> None:
    stats = {
        "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
        "memory_stats": {"usage": 1000, "stats": {"inactive_file": 300}},
    }
    assert dockercontainer.consumption(stats) == Consumption(2.5, 700)
    older = {"usage": 1000, "stats": {"total_inactive_file": 1200}}
    assert dockercontainer.consumption({**stats, "memory_stats": older}) == Consumption(2.5, 0)
    # The error of an engine for a container that has just ended.
    assert (
        dockercontainer.consumption({"cpu_stats": {"cpu_usage": {"total_usage": 0}}, "memory_stats": {}})
        is None
    )


@_engine
async def test_usage_of_running_containers_is_measured(tmp_path: Path) -> None:
    async with _runtime(tmp_path) as runtime:
        container_id = await runtime.run(_spec(_WAITER))
        ((record, used),) = (await runtime.usage()).containers
        assert (record.id, used.cpu_seconds > 0, used.working_set > 0) == (container_id, True, True)
