"""Starting, stopping and killing a driver's program."""

import subprocess
import sys
from pathlib import Path

import pytest
from dra_conformance.driverprocess import ProcessDriver, fill_placeholders
from dra_shared.errors import UserError

from tests.support.reference import REPOSITORY
from tests.support.waiting import blocking_until, is_running, until

_SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
_STAYS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def _driver(folder: Path, script: str, *words: str) -> ProcessDriver:
    return ProcessDriver([sys.executable, "-S", "-c", script, *words], {}, {}, folder / "log")


async def _up(driver: ProcessDriver) -> None:
    await until(lambda: "up" in driver.output())


def test_placeholders_in_braces_are_replaced() -> None:
    values = {"node_name": "node-0", "pod_uid": "1"}
    words = ["--node={node_name}", "{pod_uid}", "{}", "${HOME}"]
    assert fill_placeholders(words, values) == ["--node=node-0", "1", "{}", "${HOME}"]


def test_an_unknown_placeholder_is_named() -> None:
    with pytest.raises(UserError, match=r"unknown placeholder \{node\}: there are node_name"):
        fill_placeholders(["{node}"], {"node_name": "node-0"})


def test_several_instances_need_a_placeholder_for_their_uid(tmp_path: Path) -> None:
    assert not _driver(tmp_path, "pass").instances
    assert _driver(tmp_path, "pass", "{pod_uid}").instances


@pytest.mark.system
async def test_a_stopped_driver_is_observed(tmp_path: Path) -> None:
    driver = _driver(tmp_path, _SLEEPS)
    await driver.start()
    await _up(driver)
    usage = driver.usage()
    assert driver.alive()
    assert usage is not None
    assert usage.files >= 3
    assert usage.threads == 1
    assert usage.memory > 1 << 20
    ended = await driver.stop(20)
    assert ended.code == -15
    assert driver.usage() is None


@pytest.mark.system
async def test_a_driver_that_does_not_end_is_killed(tmp_path: Path) -> None:
    driver = _driver(tmp_path, _STAYS)
    await driver.start()
    await _up(driver)
    assert (await driver.stop(0.05)).code is None


@pytest.mark.system
async def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    driver = ProcessDriver(["/no/such/driver"], {}, {}, tmp_path / "log")
    with pytest.raises(UserError, match="cannot start /no/such/driver: No such file or directory"):
        await driver.start()


_KILLED = """
import asyncio, os, pathlib, signal, sys
from dra_conformance.driverprocess import ProcessDriver

async def main():
    driver = ProcessDriver(["sh", "-c", "sleep 600 & echo $! $$; wait"], {}, {}, pathlib.Path(sys.argv[1]))
    await driver.start()
    while len(driver.output().split()) < 2:
        await asyncio.sleep(0.01)
    sys.stdout.write(driver.output())
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_driver_and_its_children_end_when_the_suite_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "log")]
    killed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    pids = [int(pid) for pid in killed.stdout.split()]
    assert len(pids) == 2, killed.stderr
    blocking_until(lambda: not any(map(is_running, pids)))
