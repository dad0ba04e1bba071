import asyncio
from pathlib import Path

import pytest
from dra_driverkit.locks import FileLock, LockTimeout
from dra_shared.clock import FakeClock, SystemClock

from tests.support.waiting import until


async def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    clock = SystemClock()
    order: list[str] = []

    async def work(name: str) -> None:
        async with FileLock(tmp_path / "pu.lock", clock).hold():
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    await asyncio.gather(work("a"), work("b"))
    assert order in (["a in", "a out", "b in", "b out"], ["b in", "b out", "a in", "a out"])


async def test_waiting_for_a_lock_times_out(tmp_path: Path) -> None:
    clock = FakeClock()
    lock = FileLock(tmp_path / "pu.lock", clock)
    async with lock.hold():
        waiting = asyncio.create_task(_enter(FileLock(tmp_path / "pu.lock", clock)))
        await until(waiting.done, clock=clock)
        with pytest.raises(LockTimeout, match="timeout acquiring lock"):
            await waiting
    await _enter(lock)


async def _enter(lock: FileLock) -> None:
    async with lock.hold(10):
        pass
