"""A driver in a container: options that the suite adds to ``docker run``, and start, stop and kill of the container."""

import shlex
import sys
from pathlib import Path

import pytest
from dra_conformance.catalog import select
from dra_conformance.containerdriver import ContainerDriver, is_container
from dra_conformance.pace import Pace
from dralab.conformance import Options, Outcome, run

from tests.driver_conformance import fakecontainers
from tests.support.waiting import until

pytestmark = pytest.mark.system

_STAYS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
_ENDS = "import time; print('up', flush=True); time.sleep(60)"


def _tool(folder: Path) -> tuple[Path, Path]:
    """Return a program called docker, and the folder of its containers."""
    state = folder / "containers"
    state.mkdir()
    tool = folder / "docker"
    words = [sys.executable, "-S", fakecontainers.__file__, str(state)]
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    tool.chmod(0o755)
    return tool, state


async def _start(folder: Path, script: str) -> tuple[ContainerDriver, Path]:
    tool, state = _tool(folder)
    words = [str(tool), "run", "--privileged", sys.executable, "-S", "-c", script, "{pod_uid}"]
    driver = ContainerDriver(words, {}, {"NODE_NAME": "node-0"}, folder / "log", Path("/tmp/shared"))
    await driver.start()
    await until(lambda: "up" in driver.output())
    return driver, state


def _containers(state: Path) -> list[str]:
    return [path.name for path in state.iterdir() if path.name != "options"]


def test_commands_that_run_containers_are_recognized() -> None:
    assert is_container(["/usr/bin/podman", "run", "image"])
    assert not is_container(["docker", "compose", "up"])
    assert not is_container(["./my-driver", "run", "x"])


async def test_the_container_has_the_options_of_a_driver_pod(tmp_path: Path) -> None:
    driver, state = await _start(tmp_path, _ENDS)
    (name,) = _containers(state)
    assert (state / "options").read_text().splitlines() == [
        "--rm ",
        f"--name {name}",
        "--network host",
        "--volume /tmp/shared:/tmp/shared",
        "--env NODE_NAME=node-0",
        "--env POD_UID=0",
        "--privileged ",
    ]
    usage = driver.usage()
    assert usage is not None
    assert usage.threads == 1
    assert (await driver.stop(20)).code == 128 + 15
    assert not _containers(state)
    assert driver.usage() is None


async def test_a_container_that_does_not_end_is_removed(tmp_path: Path) -> None:
    driver, state = await _start(tmp_path, _STAYS)
    assert (await driver.stop(0.05)).code is None
    assert not _containers(state)


async def test_a_killed_container_does_not_keep_running(tmp_path: Path) -> None:
    driver, state = await _start(tmp_path, _STAYS)
    await driver.kill()
    assert driver.alive()
    assert not _containers(state)


async def test_the_suite_runs_with_a_driver_in_a_container(tmp_path: Path) -> None:
    tool, state = _tool(tmp_path)
    program = [sys.executable, "-m", "dra_node_agent.standalone", "gpu.example.com"]
    checks = select("registration.appears,prepare.succeeds,registration.back-after-kill,process.ends")
    results = await run(Options([str(tool), "run", *program], checks, pace=Pace(start=60)))
    assert {one.check.id: (one.outcome, one.message) for one in results} == {
        check.id: (Outcome.KEPT, "") for check in checks
    }
    assert not _containers(state)
