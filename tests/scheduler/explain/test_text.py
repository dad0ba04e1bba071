"""The tree that the explanation is printed as."""

from dra_scheduler.explain.report import (
    Change,
    DeviceReport,
    NodeReport,
    NodeSummary,
    PodReport,
    PoolReport,
    ReasonReport,
    RequestReport,
)
from dra_scheduler.explain.text import names_text, render

_NOT_GPU = ReasonReport(
    kind="selectorRejected",
    gist="selector #0 of class gpu: not true: type == 'gpu'",
    values="type=mig",
    saw={"type": "mig"},
    device_class="gpu",
)


def _node(name: str) -> NodeReport:
    def device(number: int, *details: ReasonReport) -> DeviceReport:
        return DeviceReport(device=f"gpu.nvidia.com/{name}/gpu-{number}", details=details)

    dead_end = ReasonReport(kind="deadEnd", gist="fits, but then the rest of the claims cannot be satisfied")
    holders = [
        ReasonReport(kind="inUse", gist="in use", values=f"by claim default/c-{number} (p-{number})")
        for number in range(5)
    ]
    request = RequestReport(
        claim="default/mine",
        request="r",
        device_class="gpu",
        count=3,
        suitable=1,
        reached=True,
        devices=(
            *(device(number, _NOT_GPU) for number in range(16)),
            *(device(16 + number, holder) for number, holder in enumerate(holders)),
            device(21, dead_end),
            device(22, holders[0], dead_end),
        ),
    )
    return NodeReport(
        node=name,
        objections={"DynamicResources": ("cannot allocate all claims",)},
        pools=(PoolReport(driver="gpu.nvidia.com", pool=name, generation=1, devices=23),),
        requests=(request,),
    )


def test_a_pending_pod_is_printed_as_a_tree() -> None:
    report = PodReport(
        pod="default/p",
        state="pending: unschedulable",
        summary=(
            NodeSummary(
                count=2,
                objections=("DynamicResources: cannot allocate all claims",),
                nodes=("node-1", "node-2"),
            ),
        ),
        closest="node-1",
        change=Change(node="node-1", kind="count", text="if request r asked for 1 instead of 3"),
        nodes=(_node("node-1"), _node("node-2")),
    )
    assert render(report) == (
        "pod default/p: pending: unschedulable\n"
        "  nodes:\n"
        "    2 nodes (node-1..2): DynamicResources: cannot allocate all claims\n"
        "  closest: node node-1\n"
        "  node node-1 would take it if request r asked for 1 instead of 3\n"
        "  node node-1: does not fit (and 1 more like it: node-2)\n"
        "    DynamicResources: cannot allocate all claims\n"
        "    pool gpu.nvidia.com/node-1 generation 1: 23 devices\n"
        "    request r of claim default/mine (3 of class gpu, 1 would suit)\n"
        "      6 devices: in use (by claim default/c-0 (p-0); by claim default/c-1 (p-1); "
        "by claim default/c-2 (p-2); and 2 others)\n"
        "        gpu-16..20, gpu-22\n"
        "      1 device: fits, but then the rest of the claims cannot be satisfied\n"
        "        gpu-21\n"
        "      16 devices: selector #0 of class gpu: not true: type == 'gpu' (saw type=mig)\n"
        "        gpu-0..15\n"
    )


def test_an_unreached_request_and_an_incomplete_pool_are_printed() -> None:
    request = RequestReport(claim="default/mine", request="r", device_class="gpu", count=1)
    pools = (
        PoolReport(driver="d", pool="p", generation=3, problem="incomplete: 1 of 2 slices of generation 3"),
    )
    text = render(
        PodReport(pod="default/p", state="x", nodes=(NodeReport(node="n", pools=pools, requests=(request,)),))
    )
    assert "pool d/p generation 3: 0 devices (incomplete: 1 of 2 slices of generation 3)" in text
    assert "no pool to take devices from" in text
    usable = (PoolReport(driver="d", pool="p", devices=1),)
    text = render(
        PodReport(
            pod="default/p", state="x", nodes=(NodeReport(node="n", pools=usable, requests=(request,)),)
        )
    )
    assert "no device of the class on this node\n" in text
    second = RequestReport(claim="default/mine", request="s", device_class="gpu", count=1, suitable=1)
    nodes = (NodeReport(node="n", pools=usable, requests=(request, second)),)
    assert "not tried: what comes before it" in render(PodReport(pod="default/p", state="x", nodes=nodes))


def test_a_missing_object_is_printed() -> None:
    change = Change(node="", kind="class", text="until device class gpu exists")
    assert "  it has to wait until device class gpu exists\n" in render(
        PodReport(pod="a/b", state="x", change=change)
    )


def test_lists_of_names_are_sorted_and_shortened() -> None:
    assert names_text(["b", "gpu-10", "gpu-9", "gpu-8", "gpu-1"]) == "b, gpu-1, gpu-8..10"
    assert names_text([f"x-{n}-{n}" for n in range(7)]) == "x-0-0, x-1-1, x-2-2, x-3-3 and 3 more"


def test_reasons_of_several_tries_are_listed_with_their_values() -> None:
    constraint = ReasonReport(
        kind="constraintUnmet", gist="constraint #0: matchAttribute numa", values="is 1, others have 0"
    )
    counter = ReasonReport(kind="counterShort", gist="counter gpu/memory", values="needs 2, lacks 1")
    devices = (
        DeviceReport(device="d/p/a", details=(constraint,)),
        DeviceReport(device="d/p/b", details=(constraint, counter)),
    )
    request = RequestReport(claim="default/c", request="r", device_class="gpu", count=1, devices=devices)
    pool = PoolReport(driver="d", pool="p", generation=1, devices=2)
    node = NodeReport(node="n", pools=(pool,), requests=(request,))
    text = render(PodReport(pod="default/p", state="pending: unschedulable", nodes=(node,)))
    assert "1 device: constraint #0: matchAttribute numa (is 1, others have 0)\n" in text
    assert (
        "1 device: constraint #0: matchAttribute numa (is 1, others have 0); "
        "in another try: counter gpu/memory (needs 2, lacks 1)\n"
    ) in text


def test_a_scheduled_pod_that_does_not_run_is_printed() -> None:
    node = NodeReport(node="n", fits=True)
    report = PodReport(
        pod="default/p",
        state="placed",
        node="n",
        waits_for=("container c: ContainerCreating",),
        nodes=(node,),
    )
    assert render(report).splitlines() == [
        "pod default/p: placed on n",
        "  does not run yet: container c: ContainerCreating",
        "  node n: has it",
    ]


def test_a_message_of_several_lines_stays_indented() -> None:
    report = PodReport(pod="default/p", state="x", message="compilation failed:\n | a.b\n | ^")
    assert render(report) == ("pod default/p: x\n  last message: compilation failed:\n     | a.b\n     | ^\n")


def test_a_program_that_nothing_simulates_is_named() -> None:
    report = PodReport(pod="default/p", state="placed", node="node-0", not_simulated="main: python3 train.py")
    assert (
        render(report).splitlines()[1].startswith("  not simulated: main: python3 train.py: it does nothing")
    )
