"""The cost of a pod's start, with and without a claim, from its event until it runs."""

import pytest
from dra_shared.clock import settle

from tests.support.cost import Cost, check, measure
from tests.support.kubelet.bench import Bench, claim, pod
from tests.support.kubelet.fakedriver import FakeDriver


@pytest.mark.parametrize(
    ("claims", "recorded"),
    [((), Cost(1306, 875, 111)), (("gpu",), Cost(1710, 1300, 159))],
    ids=["plain", "with a claim"],
)
async def test_a_pod_start_executes_no_more_python_calls_than_recorded(
    claims: tuple[str, ...], recorded: Cost
) -> None:
    bench = Bench()
    async with FakeDriver(registry=bench.registry, cdi=bench.cdi) as driver, bench:
        await driver.registered.get()

        async def start(number: int) -> None:
            name = f"p-{number}"
            container = {
                "name": "c",
                "image": "pause",
                "resources": {"claims": [{"name": one} for one in claims]},
            }
            for one in claims:
                bench.add_claim(claim(f"{one}-{number}", name))
            entries = [{"name": one, "resourceClaimName": f"{one}-{number}"} for one in claims]
            bench.create(pod(name, container, resourceClaims=entries))
            await bench.wait_for_running(name)
            await settle(100)

        check(await measure(start), recorded)
