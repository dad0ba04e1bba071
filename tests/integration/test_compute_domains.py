"""A ComputeDomain with two nodes of a simulated rack, from its creation to its deletion."""

import pytest
from dra_node_agent.drivers.nvidia.computedomain.api import COMPUTE_DOMAINS, LABEL, NAMESPACE, ComputeDomain
from dra_shared.api.resources import EVENTS, NODES

from tests.integration.lab import Lab, Setup, on
from tests.support.reference import REPOSITORY

RACK = Setup("rack", (), nodes=2, gpus="4xGB200")
HOSTS = Setup(
    "host-imex",
    (),
    nodes=2,
    gpus="4xGB200",
    options=("--nvidia-gates", "HostManagedIMEXDaemon=true", "--imex-mode", "hostManaged"),
)
EXAMPLE = REPOSITORY / "examples" / "compute-domain"


@pytest.mark.slow
@on(RACK)
async def test_workers_of_a_domain_run_on_two_nodes_with_a_channel(house: Lab) -> None:
    await house.apply(EXAMPLE)
    workers = ["worker-0", "worker-1"]
    assert {pod.spec.node_name for pod in await house.wait_for_running("compute-domain", *workers)} == {
        "node-0",
        "node-1",
    }
    for worker in workers:
        log = await house.log("compute-domain", worker, "main", lambda text: "NVIDIA GB200" in text)
        assert log.startswith("channel0\n")
        assert log.count("NVIDIA GB200") == 4

    async def ready() -> ComputeDomain | None:
        domain = await house.client.get(COMPUTE_DOMAINS, "training", "compute-domain")
        return domain if domain.status.status == "Ready" else None

    async def describe() -> str:
        return str(await house.client.list(COMPUTE_DOMAINS))

    domain = await house.until(ready, describe)
    assert sorted((node.name, node.index) for node in domain.status.nodes) in (
        [("node-0", 0), ("node-1", 1)],
        [("node-0", 1), ("node-1", 0)],
    )
    assert len({node.clique_id for node in domain.status.nodes}) == 1
    assert len(await house.pods(NAMESPACE)) == 2
    # The daemons were admitted at the first attempt, although their node has its label for a moment only.
    events = await house.client.list(EVENTS, NAMESPACE)
    assert "NodeAffinity" not in {event.reason for event in events.items}

    await house.delete(EXAMPLE)

    async def nothing_left() -> bool:
        labels = [node.metadata.labels.get(LABEL) for node in (await house.client.list(NODES)).items]
        return not await house.pods(NAMESPACE) and labels == [None, None]

    await house.until(nothing_left, describe)


@pytest.mark.slow
@on(HOSTS)
async def test_a_domain_uses_the_imex_daemons_of_its_hosts(house: Lab) -> None:
    await house.apply(EXAMPLE)
    await house.wait_for_running("compute-domain", "worker-0", "worker-1")
    assert (await house.log("compute-domain", "worker-0", "main")).startswith("channel0\n")
    assert await house.pods(NAMESPACE) == {}
    assert [node.metadata.labels.get(LABEL) for node in (await house.client.list(NODES)).items] == [
        None,
        None,
    ]
    await house.delete(EXAMPLE)
