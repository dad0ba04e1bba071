"""What a node agent decides for its nodes."""

from dra_node_agent.agent import pod_subnet


def test_nodes_have_networks_of_their_own_by_name() -> None:
    taken: set[str] = set()
    for number in range(2000):
        taken.add(pod_subnet(f"node-{number}", taken))
    assert len(taken) == 2000
    assert pod_subnet("one", ()) != pod_subnet("other", ())
    assert pod_subnet("one", ()) == pod_subnet("one", taken)


def test_a_taken_network_gives_way_to_the_next() -> None:
    first = pod_subnet("node", ())
    second = pod_subnet("node", (first,))
    assert first != second
    assert second.startswith("10.")
    assert second.endswith(".0/24")
