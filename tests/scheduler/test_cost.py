"""The cost of a placement, with and without a claim, from the pod's event until it is bound."""

import pytest

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import node_of, quiet, run_scheduler
from tests.support.cost import Cost, check, measure
from tests.support.fakeapi import FakeApi

_NODES = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("claims", "recorded"),
    [((), Cost(1223, 284, 49)), (("gpu",), Cost(2221, 642, 95))],
    ids=["plain", "with a claim"],
)
async def test_placing_a_pod_executes_no_more_python_calls_than_recorded(
    claims: tuple[str, ...], recorded: Cost
) -> None:
    api = FakeApi(class_json(), *map(node_json, _NODES), *(slice_json(name, 8) for name in _NODES))
    async with run_scheduler(api):

        async def place(number: int) -> None:
            for claim in claims:
                api.add(claim_json(f"{claim}-{number}"))
                # A scheduler that sees the pod before its claim does more.
                await quiet(api)
            api.add(pod_json(f"p-{number}", claims={claim: f"{claim}-{number}" for claim in claims}))
            await quiet(api)
            assert node_of(api, f"p-{number}")

        check(await measure(place), recorded)
