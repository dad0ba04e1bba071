import asyncio

import pytest
from dra_driverkit.flags import Flag
from dra_shared.clock import settle


async def test_setting_a_flag_wakes_all_waiters_and_later_waits_return_at_once() -> None:
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


async def test_a_flag_that_is_cleared_at_once_still_wakes_its_waiters() -> None:
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


async def test_a_cancelled_waiter_is_removed() -> None:
    flag = Flag()
    waiting = [asyncio.create_task(flag.wait()) for _ in range(2)]
    await settle()
    waiting[0].cancel()
    await settle()
    flag.set()
    await waiting[1]
    assert waiting[0].cancelled()
    assert flag._waiters is None
