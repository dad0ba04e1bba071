"""A scheduler with extenders on real sockets."""

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.plugins.profiles import load
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.scheduler.extenders.server import Server, extender
from tests.scheduler.objects import node_json, pod_json
from tests.scheduler.running import condition, node_of, nominated_node, run_scheduler
from tests.support.certificates import Party
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

_CODE_500 = "failed filter with extender at URL http://127.0.0.1:{}/scheduler/filter, code 500"


def _config_with_extenders(*servers: Server, **fields: Any) -> Loaded:
    verbs = {
        "filter": "filterVerb",
        "prioritize": "prioritizeVerb",
        "bind": "bindVerb",
        "preempt": "preemptVerb",
    }
    entries = [
        {
            "urlPrefix": f"http://127.0.0.1:{server.port}/scheduler/",
            **{verbs[verb]: verb for verb in server.answers},
            **({"weight": 1} if "prioritize" in server.answers else {}),
            **fields,
        }
        for server in servers
    ]
    return _config(entries)


def _config(entries: list[JsonObject]) -> Loaded:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "extenders": entries,
    }
    return load(yaml.safe_dump(config), FeatureGates())


def _names(arguments: JsonObject) -> list[str]:
    return [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]


async def test_an_extender_filter_gets_whole_objects_and_its_failures_are_in_the_message() -> None:
    def answer(arguments: JsonObject) -> JsonObject:
        return {
            "nodes": {"items": []},
            "failedNodes": {"a": "too hot", "c": "too hot"},
            "failedAndUnresolvableNodes": {"b": "no water"},
        }

    api = FakeApi(node_json("a"), node_json("b"), node_json("c"))
    async with extender(filter=answer) as server, run_scheduler(api, loaded=_config_with_extenders(server)):
        api.add(pod_json("p", labels={"app": "x"}))
        await until(lambda: condition(api, "p"))
    (arguments,) = server.of("filter")
    assert (arguments["Pod"]["metadata"]["labels"], arguments["NodeNames"]) == ({"app": "x"}, None)
    assert sorted(_names(arguments)) == ["a", "b", "c"]
    assert arguments["Nodes"]["items"][0]["status"]["allocatable"]["cpu"] == "4"
    assert condition(api, "p")["message"].startswith("0/3 nodes are available: 1 no water, 2 too hot.")


async def test_the_next_extender_gets_only_nodes_that_the_previous_one_kept() -> None:
    async with (
        extender(filter=lambda args: {"nodeNames": args["NodeNames"][:2]}) as first,
        extender(filter=lambda args: {"NodeNames": args["NodeNames"][1:]}) as second,
    ):
        api = FakeApi(*(node_json(name) for name in "abc"))
        async with run_scheduler(api, loaded=_config_with_extenders(first, second, nodeCacheCapable=True)):
            api.add(pod_json("p"))
            await until(lambda: node_of(api, "p"))
    names = first.of("filter")[0]["NodeNames"]
    assert second.of("filter")[0]["NodeNames"] == names[:2]
    assert node_of(api, "p") == names[1]


async def test_a_pod_that_an_extender_rejected_is_retried_after_any_change() -> None:
    refused: list[bool] = [True]
    api = FakeApi(node_json("a"))
    async with (
        extender(filter=lambda args: {"nodeNames": [] if refused else args["NodeNames"]}) as server,
        run_scheduler(api, loaded=_config_with_extenders(server, nodeCacheCapable=True)) as (_, clock),
    ):
        api.add(pod_json("p"))
        await until(lambda: condition(api, "p"))
        refused.clear()
        api.add({"kind": "Namespace", "metadata": {"name": "unrelated"}})
        api.add({"kind": "DeviceClass", "metadata": {"name": "unrelated"}, "spec": {}})
        await until(lambda: node_of(api, "p"), clock=clock)
    assert len(server.of("filter")) == 2


async def test_scores_are_added_to_those_of_the_plugins_by_weight() -> None:
    def favour(name: str, score: int) -> Any:
        return lambda args: [{"host": one, "score": score if one == name else 0} for one in args["NodeNames"]]

    # The plugins alone would choose the empty node.
    full = pod_json("there", requests={"cpu": "3", "memory": "6Gi"}, nodeName="full")
    async with (
        extender(prioritize=favour("full", 10)) as one,
        extender(prioritize=favour("empty", 4)) as other,
        extender(prioritize=lambda args: 503) as broken,
    ):
        loaded = _config_with_extenders(one, other, broken, nodeCacheCapable=True, weight=10)
        api = FakeApi(node_json("full"), node_json("empty"), full)
        async with run_scheduler(api, loaded=loaded):
            api.add(pod_json("p"))
            await until(lambda: node_of(api, "p"))
    assert node_of(api, "p") == "full"


async def test_an_extender_binds_instead_of_the_plugin() -> None:
    api = FakeApi(node_json("a"))
    async with (
        extender(bind=lambda args: {}) as server,
        run_scheduler(api, loaded=_config_with_extenders(server)),
    ):
        api.add(pod_json("p"))
        await until(lambda: server.of("bind"))
        await until(lambda: [call for call in api.writes("events") if call.body["reason"] == "Scheduled"])
    assert server.of("bind") == [{"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"}]
    assert not node_of(api, "p")


async def test_a_binding_by_an_extender_that_fails_is_reported() -> None:
    api = FakeApi(node_json("a"))
    async with (
        extender(bind=lambda args: {"error": "not today"}) as server,
        run_scheduler(api, loaded=_config_with_extenders(server)),
    ):
        api.add(pod_json("p"))
        await until(lambda: condition(api, "p"))
    assert condition(api, "p")["message"] == "not today"


async def test_an_extender_is_called_only_for_pods_that_request_its_resources() -> None:
    managed = [{"name": "example.com/tape", "ignoredByScheduler": True}]
    api = FakeApi(node_json("a"))
    async with (
        extender(filter=lambda args: {"nodes": args["Nodes"]}) as server,
        run_scheduler(api, loaded=_config_with_extenders(server, managedResources=managed)),
    ):
        api.add(pod_json("other"))
        await until(lambda: node_of(api, "other"))
        assert not server.calls
        # No node has the resource, and the scheduler leaves that to the extender.
        api.add(pod_json("tape", requests={"example.com/tape": "1"}))
        await until(lambda: node_of(api, "tape"))
    assert [call["Pod"]["metadata"]["name"] for call in server.of("filter")] == ["tape"]


@pytest.mark.parametrize("ignorable", [False, True])
async def test_a_failing_extender_fails_the_attempt_unless_ignorable(ignorable: bool) -> None:
    api = FakeApi(node_json("a"))
    async with (
        extender(filter=lambda args: 500) as server,
        run_scheduler(api, loaded=_config_with_extenders(server, ignorable=ignorable)),
    ):
        api.add(pod_json("p"))
        await until(lambda: node_of(api, "p") or condition(api, "p"))
    assert bool(node_of(api, "p")) is ignorable
    if not ignorable:
        found = condition(api, "p")
        assert (found["reason"], found["message"]) == ("SchedulerError", _CODE_500.format(server.port))


async def test_an_unreachable_extender_fails_the_attempt_unless_ignorable() -> None:
    async with extender(filter=lambda args: {}) as server:
        loaded = _config_with_extenders(server)
    api = FakeApi(node_json("a"))
    async with run_scheduler(api, loaded=loaded):
        api.add(pod_json("p"))
        await until(lambda: condition(api, "p"))
    url = f"http://127.0.0.1:{server.port}"
    assert condition(api, "p")["message"] == (
        f'Post "{url}/scheduler/filter": dial tcp 127.0.0.1:{server.port}: connect: connection refused'
    )


@pytest.mark.parametrize("answer", [{"nodeNames": ["elsewhere"]}, {"error": "out of order"}])
async def test_an_answer_with_an_error_or_an_unknown_node_is_an_error(answer: JsonObject) -> None:
    api = FakeApi(node_json("a"))
    async with (
        extender(filter=lambda args: answer) as server,
        run_scheduler(api, loaded=_config_with_extenders(server, nodeCacheCapable=True)),
    ):
        api.add(pod_json("p"))
        await until(lambda: condition(api, "p"))
    strange = (
        f'extender "http://127.0.0.1:{server.port}/scheduler/" claims a filtered node "elsewhere" which is not found '
        "in the input node list"
    )
    assert condition(api, "p")["message"] == answer.get("error", strange)


@pytest.mark.parametrize("cached", [False, True])
async def test_preemption_evicts_from_the_node_that_the_extender_kept(cached: bool) -> None:
    def answer(arguments: JsonObject) -> JsonObject:
        if cached:
            assert arguments["NodeNameToVictims"] is None
            return {"NodeNameToMetaVictims": {"b": arguments["NodeNameToMetaVictims"]["b"]}}
        (victim,) = arguments["NodeNameToVictims"]["b"]["Pods"]
        assert victim["spec"]["nodeName"] == "b"
        return {"nodeNameToMetaVictims": {"b": {"pods": [{"uid": victim["metadata"]["uid"]}]}}}

    # Without an extender, the least important pod is preempted, which is on the other node.
    placed = [
        pod_json("cheap", requests={"cpu": "3"}, priority=1, nodeName="a"),
        pod_json("dear", requests={"cpu": "3"}, priority=2, nodeName="b"),
    ]
    api = FakeApi(node_json("a"), node_json("b"), *placed)
    async with (
        extender(preempt=answer) as server,
        run_scheduler(api, loaded=_config_with_extenders(server, nodeCacheCapable=cached)) as (_, clock),
    ):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: nominated_node(api, "high") or node_of(api, "high"))
        await until(lambda: node_of(api, "high"), clock=clock)
    assert node_of(api, "high") == "b"
    assert [pod["metadata"]["name"] for pod in api.of("pods")] == ["cheap", "high"]


async def test_an_extender_may_reject_all_preemption() -> None:
    api = FakeApi(node_json("a"), pod_json("low", requests={"cpu": "3"}, nodeName="a"))
    async with (
        extender(preempt=lambda args: {}) as server,
        run_scheduler(api, loaded=_config_with_extenders(server)),
    ):
        api.add(pod_json("high", requests={"cpu": "3"}, priority=100))
        await until(lambda: condition(api, "high"))
    assert condition(api, "high")["message"].endswith("preemption: no candidate node for preemption")
    assert len(api.of("pods")) == 2


def _server_context(party: Party, folder: Path, trusted: Party) -> ssl.SSLContext:
    """Return the TLS context of a server that verifies client certificates."""
    file = folder / "server.pem"
    file.write_bytes(party.pem + party.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=trusted.pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(file)
    return context


async def test_extender_is_called_over_tls_with_client_certificate(tmp_path: Path) -> None:
    authority = Party("authority")
    context = _server_context(Party("extender.test", authority), tmp_path, authority)
    own = Party("scheduler", authority)
    tls = {
        "serverName": "extender.test",
        "caData": base64.b64encode(authority.pem).decode(),
        "certData": base64.b64encode(own.pem).decode(),
        "keyData": base64.b64encode(own.key_pem).decode(),
    }
    api = FakeApi(node_json("a"))
    async with extender(context, filter=lambda args: {"nodeNames": args["NodeNames"]}) as server:
        url = f"https://127.0.0.1:{server.port}/scheduler"
        entry = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "enableHTTPS": True}
        async with run_scheduler(api, loaded=_config([{**entry, "tlsConfig": tls}])):
            api.add(pod_json("p"))
            await until(lambda: node_of(api, "p"))
        # A client that the server does not know.
        async with run_scheduler(api, loaded=_config([entry])):
            api.add(pod_json("q"))
            await until(lambda: condition(api, "q"))
    assert condition(api, "q")["message"].startswith(f'Post "{url}/filter": ')


@pytest.mark.parametrize("body", [[], "x", {"NodeNames": 5}, {"error": {}}, {"failedNodes": "x"}], ids=str)
async def test_a_pod_stays_pending_while_an_extender_answers_with_wrong_types(body: Any) -> None:
    api = FakeApi(node_json("a"))
    async with (
        extender(filter=lambda args: body) as server,
        run_scheduler(api, loaded=_config_with_extenders(server)),
    ):
        api.add(pod_json("p"))
        await until(lambda: condition(api, "p"))
    found = condition(api, "p")
    assert found["reason"] == "SchedulerError"
    assert found["message"].startswith("json: cannot unmarshal ")
