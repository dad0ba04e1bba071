import asyncio

import pytest
from dra_driverkit.flags import Flag
from dra_shared.clock import settle


async def test_all_who_wait_go_on_and_those_who_come_later_need_not_wait() -> None:
    flag, passed = Flag(), list[int]()

    async def wait(number: int) -> None:
        await flag.wait()
        passed.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    await settle()
    assert not passed
    flag.set()
    await asyncio.gather(*tasks, wait(3))
    assert sorted(passed) == [0, 1, 2, 3]
    assert flag.is_set()


async def test_what_is_cleared_at_once_still_wakes_those_who_waited() -> None:
    flag = Flag()
    waiting = asyncio.create_task(flag.wait())
    await settle()
    flag.set()
    flag.clear()
    await waiting
    assert not flag.is_set()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await flag.wait()


async def test_one_who_is_cancelled_is_forgotten() -> None:
    flag = Flag()
    waiting = [asyncio.create_task(flag.wait()) for _ in range(2)]
    await settle()
    waiting[0].cancel()
    await settle()
    flag.set()
    await waiting[1]
    assert waiting[0].cancelled()
    assert flag._waiters is None
