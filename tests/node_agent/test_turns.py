"""A limited number of nodes starts at a time."""

import asyncio

from dra_node_agent import turns
from dra_node_agent.turns import Turns

from tests.support.waiting import until


async def test_the_next_node_starts_when_another_has_finished_starting() -> None:
    all_turns, begun = Turns(), list[turns.Turn]()

    async def start() -> None:
        begun.append(await all_turns.next())

    waiting = [asyncio.create_task(start()) for _ in range(turns._AT_A_TIME + 2)]
    await until(lambda: len(begun) == turns._AT_A_TIME)
    begun[0].end()
    begun[0].end()
    await until(lambda: len(begun) == turns._AT_A_TIME + 1)
    begun[1].end()
    await asyncio.gather(*waiting)
    for turn in begun:
        turn.end()
