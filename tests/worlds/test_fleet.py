"""Files of fleets, and nodes of a running cluster."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from dra_cli import commandline
from dra_cli.commands import up
from dra_kube.access import ChosenCluster
from dra_kube.cluster import Cluster as Home
from dra_lab import nodes
from dra_lab.clusteroptions import ClusterOptions
from dra_lab.services import ClusterServices
from dra_shared.errors import UserError
from dra_worlds.fleet import SCHEMA, Group, Pool, Pools, group, pool, pools_of, read, with_sockets
from dralab.testing import Cluster

from tests.support.cases import each_case
from tests.support.warm import warm_forks

_SCHEMA: dict[str, Any] = json.loads(SCHEMA.read_text())


def test_a_pool_is_converted_to_flags_of_an_agent(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "pools:\n- {name: big, count: 2, cpu: 128, memory: 2Ti, zone: a, price: 98.5, labels: {team: ml},\n"
        "   taints: ['reserved=ml:NoSchedule'], drivers: [gpu.nvidia.com]}\n- {name: small}\n"
    )
    big, small = read(file)
    flags = big.flags()
    assert flags[:4] == ["--nodes", "2", "--node-name", "big"]
    assert Pool(name="big", count=3, removed=("big-1",)).flags()[:2] == ["--node-names", "big-0,big-2"]
    labels = flags[flags.index("--node-labels") + 1]
    assert labels == "topology.kubernetes.io/zone=a,team=ml,dralab.dev/price=98.5"
    assert flags[flags.index("--node-cpu") + 1] == "128"
    assert small == Pool(name="small")


@each_case(
    ("given", "message"),
    [
        ({}, "a pool needs a name"),
        ({"name": "Big"}, "name: must be a DNS label"),
        ({"name": "a", "count": -1}, "count: must be a number between 0 and 10000"),
        ({"name": "a", "gpu": "x"}, "gpu: unknown: choose name, count, gpus"),
        ({"name": "a", "memory": "much"}, "memory: must be a quantity"),
        ({"name": "a", "taints": ["x:Never"]}, "taints: must be a list of key=value:effect"),
        ({"name": "a", "price": "cheap"}, "price: must be a number"),
    ],
)
def test_invalid_pools_are_rejected_by_the_command_and_the_schema(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        pool(given, "fleet.yaml: pools[0]")
    if "memory" not in given:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"pools": [given]}, _SCHEMA)


def test_the_schema_has_every_field() -> None:
    fields = _SCHEMA["properties"]["pools"]["items"]["properties"]
    assert set(fields) == {*json.loads(Pool(name="a").text()), "price"}
    jsonschema.validate({"pools": [{"name": "a", "price": 1, "cpu": 4}]}, _SCHEMA)


def test_groups_of_the_command_line_are_converted_to_pools() -> None:
    assert group("4000") == Group(4000)
    assert group("4000:8xA100-SXM4-40GB@eu-1a") == Group(4000, "8xA100-SXM4-40GB", "eu-1a")
    assert pools_of([Group(3, zone="a")], "1xT4", ("d",)) == [
        Pool(name="node", count=3, gpus="1xT4", drivers=("d",), zone="a")
    ]
    assert pools_of([Group(0)], "1xT4", ()) == []
    several = pools_of([group("4:8xA100-SXM4-40GB"), group("1"), group("2:8xA100-SXM4-40GB@b")], "1xT4", ())
    assert [(one.name, one.count, one.gpus, one.zone) for one in several] == [
        ("a100-sxm4-40gb", 4, "8xA100-SXM4-40GB", ""),
        ("t4", 1, "1xT4", ""),
        ("a100-sxm4-40gb-2", 2, "8xA100-SXM4-40GB", "b"),
    ]


@each_case("text", ["", "many", "-1", "2.5", "8xH100", "3:", "3@", "10001", "3@eu/1", "3:1xT4@-a", "3@a@b"])
def test_an_invalid_group_is_rejected(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"not a number of nodes|not between 0 and 10000|zone '.*': a valid label"
    ):
        group(text)


@each_case(
    ("given", "message"),
    [
        ({"labels": {"a b": "c"}}, "labels: 'a b': name part must consist of"),
        ({"labels": {"a/b/c": "d"}}, "labels: 'a/b/c': a valid label key"),
        ({"labels": {"a": "b c"}}, "labels: 'b c': a valid label must be"),
        ({"zone": "eu/1"}, "zone: 'eu/1': a valid label must be"),
        ({"taints": ["a b:NoSchedule"]}, "taints: 'a b': name part must consist of"),
        ({"taints": ["a=b c:NoSchedule"]}, "taints: 'b c': a valid label must be"),
    ],
)
def test_values_that_the_api_server_would_reject_are_rejected_at_once(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=f"^fleet.yaml: pools.0..{message}"):
        pool({"name": "a", **given}, "fleet.yaml: pools[0]")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["-f", "x.yaml", "--gpus", "8xA30-24GB"],
            "--gpus: the nodes are those of --filename",
        ),
        (
            ["--from", "x", "--nodes", "2", "--driver", "none"],
            "--nodes, --driver: the nodes are those of --from",
        ),
    ],
)
def test_nodes_described_twice_are_rejected(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        up.read_options(commandline.parser("up").read(words))
    assert refused.value.code == 2


def test_drivers_open_their_sockets_by_default_on_at_most_100_nodes() -> None:
    assert with_sockets(None, 100)
    assert not with_sockets(None, 101)
    assert with_sockets(True, 5000)
    assert not with_sockets(False, 1)


def test_pools_of_an_earlier_start_are_removed(tmp_path: Path) -> None:
    pools = Pools(tmp_path)
    pools.write(Pool(name="old"))
    pools.start([Pool(name="new", removed=("new-0",))])
    assert list(pools.read()) == ["new"]
    assert pools.read()["new"].nodes == []


@pytest.mark.system
@pytest.mark.dra_cluster(nodes=2, scope="module")
def test_draining_a_node_follows_the_rules_of_kubectl_drain(
    dra_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    container = {"name": "c", "image": "any", "command": ["sleep", "infinity"]}
    dra_cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "alone"},
            "spec": {"containers": [container], "nodeName": "node-0"},
        }
    )
    dra_cluster.pod("alone").wait_for()
    there = ChosenCluster(server=dra_cluster.url)
    how = nodes.Eviction(grace_period=0)
    with pytest.raises(UserError, match=r"use --force to override\): default/alone"):
        dra_cluster.run(nodes.drain(there, ["node-0"], how))
    dra_cluster.run(nodes.drain(there, ["node-0"], nodes.Eviction(force=True, grace_period=0)))
    assert dra_cluster.list("pods") == []
    assert dra_cluster.get("node/node-0")["spec"]["unschedulable"] is True
    dra_cluster.run(nodes.cordon(there, ["node-0"], unschedulable=False))
    assert "unschedulable" not in dra_cluster.get("node/node-0")["spec"]
    assert "node/node-0 drained" in capsys.readouterr().out


@pytest.mark.system
@pytest.mark.slow
async def test_nodes_are_added_and_removed_while_the_cluster_runs(tmp_path: Path) -> None:
    home, there = Home(tmp_path), ChosenCluster(data=tmp_path)
    options = ClusterOptions(nodes=1, port=0, relaxed=True, drivers=("none",))
    with home.locked(), warm_forks() as forks:
        async with ClusterServices(home, options, print, forks).run():
            await nodes.add(
                there, {"name": "more", "count": 2, "drivers": ["none"], "labels": {"new": "yes"}}, 100
            )
            assert "node-agent-more" in home.record().services
            with pytest.raises(UserError, match="node-agent-odd does not start: unknown GPU model 'NOPE'"):
                await nodes.add(there, {"name": "odd", "gpus": "8xNOPE"}, 100)
            assert "odd" not in Pools(tmp_path).read()
            async with there.client() as client:
                listed = (
                    await client.raw("GET", "/api/v1/nodes", params={"labelSelector": "new=yes"})
                ).json()
                assert [node["metadata"]["name"] for node in listed["items"]] == ["more-0", "more-1"]
                await nodes.remove(there, ["more-0"], 100)
                assert (await client.raw("GET", "/api/v1/nodes/more-0")).status_code == 404
                await nodes.remove(there, ["more-1"], 100)
            assert "node-agent-more" not in home.record().services
            with pytest.raises(UserError, match="has a node more-1"):
                await nodes.remove(there, ["more-1"], 1)
        home.forget()
