"""The simulated runtime."""

import asyncio
from collections.abc import AsyncIterator
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
from dra_node_agent.runtime.base import ContainerSpec, LogOptions, RuntimeFailure, SandboxSpec, State
from dra_node_agent.runtime.fake import FakeRuntime
from dra_shared.clock import FakeClock, settle
from structlog.testing import capture_logs

from tests.support.waiting import until

_WAITER = "trap 'echo bye; exit 0' TERM; sleep 9999 & wait"


def _spec(command: list[str], **options: Any) -> ContainerSpec:
    values: dict[str, Any] = {
        "namespace": "ns",
        "pod": "pod",
        "pod_uid": "uid",
        "name": "main",
        "attempt": 0,
        "image": "busybox:1",
        "command": command,
        **options,
    }
    return ContainerSpec(**values)


@asynccontextmanager
async def _runtime(tmp_path: Path, clock: FakeClock) -> AsyncIterator[FakeRuntime]:
    runtime = FakeRuntime(tmp_path / "runtime", tmp_path / "cdi", clock, readable=(tmp_path / "pods",))
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.close()


async def _log(runtime: FakeRuntime, container_id: str) -> str:
    await settle()
    return b"".join([piece async for piece in runtime.logs(container_id, LogOptions())]).decode()


def _record(runtime: FakeRuntime, container_id: str) -> Any:
    return next(record for record in runtime.containers() if record.id == container_id)


async def test_cdi_edits_are_applied_to_the_container(tmp_path: Path) -> None:
    host_file = tmp_path / "driver.conf"
    host_file.write_text("mode=fast\n")
    edits = ContainerEdits(
        env=("GPU=0",),
        device_nodes=(DeviceNode(path="/dev/fancy0"),),
        mounts=(Mount(host_path=str(host_file), container_path="/etc/driver.conf"),),
    )
    spec = Spec(kind="vendor.example.com/gpu", devices=(CdiDevice(name="gpu0", container_edits=edits),))
    write_spec(tmp_path / "cdi", "vendor", spec)
    async with _runtime(tmp_path, FakeClock()) as runtime:
        script = "echo $GPU; ls /dev | grep fancy; cat /etc/driver.conf; ls -l /dev/fancy0"
        container_id = await runtime.run(
            _spec(["sh", "-c", script], cdi_device_ids=["vendor.example.com/gpu=gpu0"])
        )
        assert await _log(runtime, container_id) == (
            "0\nfancy0\nmode=fast\ncrw-rw-rw- 1 root root 0 /dev/fancy0\n"
        )


async def test_a_changed_driver_file_is_read_again(tmp_path: Path) -> None:
    host_file = tmp_path / "driver.conf"
    edits = ContainerEdits(mounts=(Mount(host_path=str(host_file), container_path="/etc/driver.conf"),))
    write_spec(tmp_path / "cdi", "v", Spec("v/c", (CdiDevice("d", container_edits=edits),)))
    seen = []
    async with _runtime(tmp_path, FakeClock()) as runtime:
        for attempt, text in enumerate(("first", "second", "second")):
            if attempt < 2:
                host_file.unlink(missing_ok=True)
                host_file.write_text(text)
            spec = _spec(["cat", "/etc/driver.conf"], cdi_device_ids=["v/c=d"], attempt=attempt)
            seen.append(await _log(runtime, await runtime.run(spec)))
    assert [text.split()[-1] for text in seen] == ["first", "second", "second"]


async def test_hooks_groups_and_network_devices_of_cdi_are_applied(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.550.1"
    library.write_text("code")
    hook = "/driver/usr/bin/nvidia-cdi-hook"

    def run(*words: str, stage: str = "createContainer") -> Hook:
        return Hook(stage, hook, ("nvidia-cdi-hook", *words))

    links = (
        "--link",
        "libcuda.so.550.1::/usr/lib/gpu/libcuda.so.1",
        "--link=libcuda.so.1::/usr/lib/gpu/libcuda.so",
    )
    edits = ContainerEdits(
        hooks=(
            run("create-symlinks", *links),
            run("update-ldcache", "--folder", "/usr/lib/gpu"),
            run("disable-device-node-modification"),
            run("enable-cuda-compat", "--host-driver-version=550.1"),
            run("create-symlinks", "--link", "a::/b", stage="poststop"),
        ),
        mounts=(Mount(str(library), "/usr/lib/gpu/libcuda.so.550.1"),),
        net_devices=(NetDevice("ib0", "rdma0"),),
        additional_gids=(44,),
    )
    spec = Spec(kind="vendor.example.com/gpu", devices=(CdiDevice(name="gpu0", container_edits=edits),))
    write_spec(tmp_path / "cdi", "vendor", spec)
    script = (
        "readlink /usr/lib/gpu/libcuda.so; cat /usr/lib/gpu/libcuda.so; echo; ldconfig -p; "
        "cat /proc/driver/nvidia/params; id; ls /sys/class/net; ip link show rdma0; ls /b || echo no b"
    )
    async with _runtime(tmp_path, FakeClock()) as runtime:
        with capture_logs() as logs:
            container_id = await runtime.run(
                _spec(["sh", "-c", script], cdi_device_ids=["vendor.example.com/gpu=gpu0"])
            )
        await until(lambda: runtime.containers()[0].state is State.EXITED)
        assert await _log(runtime, container_id) == (
            "libcuda.so.1\ncode\n"
            "3 libs found in cache `/etc/ld.so.cache'\n"
            "\tlibcuda.so (libc6,x86-64) => /usr/lib/gpu/libcuda.so\n"
            "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/gpu/libcuda.so.1\n"
            "\tlibcuda.so.550.1 (libc6,x86-64) => /usr/lib/gpu/libcuda.so.550.1\n"
            "ModifyDeviceFiles: 0\n"
            "uid=0(root) gid=0(root) groups=0(root),44\n"
            "eth0\nlo\nrdma0\n"
            "3: rdma0: <UP,LOWER_UP> mtu 1500 state UP\n"
            "ls: cannot access '/b': No such file or directory\nno b\n"
        )
    (warning,) = logs
    assert warning["hooks"] == ["nvidia-cdi-hook create-symlinks --link a::/b"]


async def test_an_unknown_cdi_device_fails_the_container(tmp_path: Path) -> None:
    async with _runtime(tmp_path, FakeClock()) as runtime:
        with pytest.raises(RuntimeFailure, match="unresolvable CDI devices vendor/gpu=gpu0") as raised:
            await runtime.run(_spec(["true"], cdi_device_ids=["vendor/gpu=gpu0"]))
        assert raised.value.reason == "CreateContainerError"


async def test_a_script_with_a_trap_ends_at_once_on_sigterm(tmp_path: Path) -> None:
    clock = FakeClock()
    async with _runtime(tmp_path, clock) as runtime:
        container_id = await runtime.run(_spec(["bash", "-c", _WAITER]))
        await settle()
        await runtime.stop(container_id, 30)
        record = _record(runtime, container_id)
        assert (record.state, record.exit_code, record.reason) == (State.EXITED, 0, "Completed")
        assert await _log(runtime, container_id) == "bye\n"


async def test_image_with_its_own_entry_point_runs_until_it_is_stopped(tmp_path: Path) -> None:
    async with _runtime(tmp_path, FakeClock()) as runtime:
        container_id = await runtime.run(_spec([], image="nginx"))
        await settle()
        assert _record(runtime, container_id).state is State.RUNNING
        await runtime.stop(container_id, 30)
        assert _record(runtime, container_id).exit_code == 0


@pytest.mark.parametrize("args", [["echo", "hi"], ["sh", "-c", "echo hi"]])
async def test_arguments_are_the_command_of_an_image_without_entry_point(
    tmp_path: Path, args: list[str]
) -> None:
    async with _runtime(tmp_path, FakeClock()) as runtime:
        container_id = await runtime.run(_spec([], args=args))
        assert await _log(runtime, container_id) == "hi\n"
        assert _record(runtime, container_id).exit_code == 0


async def test_a_shell_as_first_process_ignores_signals_without_a_trap(tmp_path: Path) -> None:
    clock = FakeClock()
    async with _runtime(tmp_path, clock) as runtime:
        container_id = await runtime.run(_spec(["sh", "-c", "sleep 9999"]))
        stopping = asyncio.create_task(runtime.stop(container_id, 30))
        await clock.advance(29)
        assert not stopping.done()
        await clock.advance(2)
        await stopping
        record = _record(runtime, container_id)
        assert (record.exit_code, record.reason) == (137, "Error")


@pytest.mark.parametrize("suffix", ["", ".main"])
async def test_annotations_set_duration_and_exit_code(tmp_path: Path, suffix: str) -> None:
    clock = FakeClock()
    annotations = {f"dralab.dev/run-seconds{suffix}": "5", f"dralab.dev/exit-code{suffix}": "42"}
    async with _runtime(tmp_path, clock) as runtime:
        container_id = await runtime.run(_spec([], annotations=annotations))
        await clock.advance(4)
        assert _record(runtime, container_id).state is State.RUNNING
        await clock.advance(2)
        assert _record(runtime, container_id).exit_code == 42


async def test_exec_uses_the_files_of_the_container(tmp_path: Path) -> None:
    async with _runtime(tmp_path, FakeClock()) as runtime:
        container_id = await runtime.run(_spec(["sh", "-c", "echo ready > /tmp/state; sleep 999"]))
        await settle()
        assert await runtime.exec(container_id, ["cat", "/tmp/state"]) == (0, b"ready\n")
        assert (await runtime.exec(container_id, ["sh", "-c", "exit 4"]))[0] == 4
        assert (await runtime.exec(container_id, ["/app/own-check"]))[0] == 0


async def test_an_exec_command_is_stopped_at_its_timeout(tmp_path: Path) -> None:
    clock = FakeClock()
    async with _runtime(tmp_path, clock) as runtime:
        container_id = await runtime.run(_spec([]))
        checking = asyncio.create_task(runtime.exec(container_id, ["sleep", "60"], 1.0))
        await clock.advance(2)
        with pytest.raises(RuntimeFailure, match="timed out after 1s"):
            await checking


async def test_the_termination_message_is_read(tmp_path: Path) -> None:
    async with _runtime(tmp_path, FakeClock()) as runtime:
        script = "echo out of memory > /dev/termination-log; exit 1"
        container_id = await runtime.run(_spec(["sh", "-c", script]))
        await settle()
        assert _record(runtime, container_id).message == "out of memory\n"


async def test_containers_continue_after_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    script = "echo first; sleep 10; echo second; sleep 10; echo third; exit 5"
    async with _runtime(tmp_path, clock) as runtime:
        container_id = await runtime.run(_spec(["sh", "-c", script]))
        await clock.advance(11)
    await clock.advance(4)
    async with _runtime(tmp_path, clock) as runtime:
        await settle()
        assert await _log(runtime, container_id) == "first\nsecond\n"
        await clock.advance(4)
        assert _record(runtime, container_id).state is State.RUNNING
        await clock.advance(2)
        record = _record(runtime, container_id)
        assert (record.state, record.exit_code) == (State.EXITED, 5)
        assert await _log(runtime, container_id) == "first\nsecond\nthird\n"
    async with _runtime(tmp_path, clock) as runtime:
        assert _record(runtime, container_id).exit_code == 5
        assert await _log(runtime, container_id) == "first\nsecond\nthird\n"


async def test_sandboxes_have_unique_addresses(tmp_path: Path) -> None:
    clock = FakeClock()
    async with _runtime(tmp_path, clock) as runtime:
        first = await runtime.create_sandbox(SandboxSpec("ns", "one", "uid-1"))
        assert await runtime.create_sandbox(SandboxSpec("ns", "one", "uid-1")) == first
        second = await runtime.create_sandbox(SandboxSpec("ns", "two", "uid-2"))
        assert first != second
        host = await runtime.create_sandbox(SandboxSpec("ns", "three", "uid-3", host_network=True))
        assert host == "127.0.0.1"
    async with _runtime(tmp_path, clock) as runtime:
        assert await runtime.create_sandbox(SandboxSpec("ns", "two", "uid-2")) == second
        await runtime.remove_sandbox("uid-2")
        assert not (tmp_path / "runtime" / "uid-2").exists()


@pytest.mark.parametrize("image", ["Not An Image", "", "a b", "UPPER"])
async def test_malformed_image_names_are_rejected(tmp_path: Path, image: str) -> None:
    async with _runtime(tmp_path, FakeClock()) as runtime:
        with pytest.raises(RuntimeFailure) as raised:
            await runtime.pull(image, "Always")
        assert raised.value.reason == "InvalidImageName"


async def test_simulated_containers_cannot_access_files_of_the_host(tmp_path: Path) -> None:
    from dra_node_agent.runtime.base import Mount as PodMount

    secret = tmp_path / "secret"
    secret.write_text("do not show")
    async with _runtime(tmp_path, FakeClock()) as runtime:
        mounts = [PodMount("/host/secret", str(secret))]
        container_id = await runtime.run(_spec(["cat", "/host/secret"], mounts=mounts))
        assert "do not show" not in await _log(runtime, container_id)
