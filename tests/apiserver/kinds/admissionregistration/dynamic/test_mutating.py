"""Test changes by MutatingAdmissionPolicies. The texts are those of kube-apiserver 1.36.2."""

from typing import Any

import httpx
import pytest
from dra_shared.jsontypes import JsonObject

from tests.apiserver.kinds.admissionregistration.dynamic.objects import (
    CONFIGMAPS,
    GROUP,
    MERGE,
    configmap,
    create,
    registration,
)

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RULE = {
    "apiGroups": ["", "apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps", "deployments"],
}


def apply(expression: str) -> JsonObject:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> JsonObject:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def create_mutating_policy(
    client: httpx.AsyncClient, name: str, *mutations: JsonObject, **spec: Any
) -> None:
    policy = {
        "matchConstraints": {"resourceRules": [RULE]},
        "reinvocationPolicy": "Never",
        "mutations": list(mutations),
        **spec,
    }
    await create(
        client, f"{GROUP}/mutatingadmissionpolicies", registration("MutatingAdmissionPolicy", name, policy)
    )
    binding = registration("MutatingAdmissionPolicyBinding", name, {"policyName": name})
    await create(client, f"{GROUP}/mutatingadmissionpolicybindings", binding)


def deployment() -> JsonObject:
    containers = [{"name": "c", "image": "i", "args": ["x"]}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


@pytest.mark.parametrize(
    ("mutations", "data"),
    [
        ([apply("Object{data: {'b': object.data.a + '!'}}")], {"a": "1", "b": "1!"}),
        ([apply("Object{}")], {"a": "1"}),
        ([patch("[JSONPatch{op: 'add', path: '/data/b', value: 'x'}]")], {"a": "1", "b": "x"}),
        ([patch("[JSONPatch{op: 'replace', path: '/data/b', value: 'x'}]")], {"a": "1", "b": "x"}),
        (
            [
                patch(
                    "[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data/a'}]"
                )
            ],
            {"a": "1"},
        ),
        (
            [
                apply("Object{data: {'b': 'x'}}"),
                patch("[JSONPatch{op: 'add', path: '/data/c', value: object.data.b + 'y'}]"),
            ],
            {"a": "1", "b": "x", "c": "xy"},
        ),
    ],
)
async def test_mutating_policies_change_objects(
    client: httpx.AsyncClient, mutations: list[JsonObject], data: dict[str, str]
) -> None:
    await create_mutating_policy(client, "m", *mutations)
    stored = await create(client, CONFIGMAPS, configmap("c", a="1"))
    assert stored["data"] == data


async def test_map_keys_are_escaped_in_json_patch_paths(client: httpx.AsyncClient) -> None:
    path = "'/metadata/annotations/' + jsonpatch.escapeKey('a/b')"
    await create_mutating_policy(client, "m", patch(f"[JSONPatch{{op: 'add', path: {path}, value: 'x'}}]"))
    noted = configmap("c") | {"metadata": {"name": "c", "annotations": {"y": "z"}}}
    assert (await create(client, CONFIGMAPS, noted))["metadata"]["annotations"] == {"a/b": "x", "y": "z"}


async def test_lists_are_merged_by_their_keys(client: httpx.AsyncClient) -> None:
    spec = "Object.spec.template.spec"
    await create_mutating_policy(
        client,
        "m",
        apply(
            "Object{spec: Object.spec{template: Object.spec.template{spec: "
            f"{spec}{{containers: [{spec}.containers{{name: 'c', imagePullPolicy: 'Never'}}, "
            f"{spec}.containers{{name: 'new', image: 'n'}}]}}}}}}}}"
        ),
    )
    stored = await create(client, DEPLOYMENTS, deployment())
    first, second = stored["spec"]["template"]["spec"]["containers"]
    assert (first["name"], first["image"], first["args"]) == ("c", "i", ["x"])
    assert first["imagePullPolicy"] == "Never"
    assert (second["name"], second["image"], second["imagePullPolicy"]) == ("new", "n", "Always")


@pytest.mark.parametrize(
    ("mutation", "expected"),
    [
        (
            apply("Object{data: {'b': object.data.none}}"),
            "expression 'Object{data: {'b': object.data.none}}' resulted in error: no such key: none",
        ),
        (
            apply("Object{metadata: Object.meta{labels: {'a': 'b'}}}"),
            'type mismatch: unexpected type name "Object.meta", expected "Object.metadata", which matches field name '
            "path from root Object type",
        ),
        (
            apply("Object{foo: 1}"),
            "error applying patch: failed to convert patch object to typed object: .foo: field not declared in schema",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            "JSON Patch: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
        ),
    ],
)
async def test_mutations_that_fail_deny_the_request(
    client: httpx.AsyncClient, mutation: JsonObject, expected: str
) -> None:
    await create_mutating_policy(client, "m", mutation)
    answer = await client.post(CONFIGMAPS, json=configmap("c", a="1"))
    message = f"policy 'm' with binding 'm' denied request: {expected}"
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Invalid",
        "details": {"name": "c", "kind": "configmaps", "causes": [{"message": message}]},
        "code": 403,
    }


async def test_an_apply_configuration_cannot_set_part_of_an_atomic_list(client: httpx.AsyncClient) -> None:
    spec = "Object.spec.template.spec"
    await create_mutating_policy(
        client,
        "m",
        apply(
            "Object{spec: Object.spec{template: Object.spec.template{spec: "
            f"{spec}{{containers: [{spec}.containers{{name: 'c', args: ['y']}}]}}}}}}}}"
        ),
    )
    answer = await client.post(DEPLOYMENTS, json=deployment())
    assert answer.json()["message"].endswith(
        "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        ".spec.template.spec.containers[0].args"
    )


async def test_ignored_failures_let_requests_pass(client: httpx.AsyncClient) -> None:
    await create_mutating_policy(
        client, "m", apply("Object{data: {'b': object.data.none}}"), failurePolicy="Ignore"
    )
    assert (await create(client, CONFIGMAPS, configmap("c", a="1")))["data"] == {"a": "1"}


async def test_a_policy_is_invoked_again_after_later_changes(client: httpx.AsyncClient) -> None:
    def count(key: str) -> JsonObject:
        number = f"string(int(object.?data.{key}.orValue('0')) + 1)"
        return patch(f"[JSONPatch{{op: 'add', path: '/data/{key}', value: {number}}}]")

    await create_mutating_policy(client, "a", count("n"), reinvocationPolicy="IfNeeded")
    await create_mutating_policy(client, "b", count("m"))
    stored = await create(client, CONFIGMAPS, configmap("c", a="1"))
    assert stored["data"] == {"a": "1", "n": "2", "m": "1"}


async def test_match_conditions_select_requests_and_deletions_are_not_mutated(
    client: httpx.AsyncClient,
) -> None:
    condition = {"name": "marked", "expression": "'mark' in object.data"}
    await create_mutating_policy(
        client,
        "m",
        apply("Object{data: {'b': variables.word}}"),
        variables=[{"name": "word", "expression": "request.operation.lowerAscii()"}],
        matchConditions=[condition],
    )
    assert (await create(client, CONFIGMAPS, configmap("c", a="1")))["data"] == {"a": "1"}
    changed = await client.patch(f"{CONFIGMAPS}/c", json={"data": {"mark": "x"}}, headers=MERGE)
    assert changed.json()["data"] == {"a": "1", "mark": "x", "b": "update"}
    assert (await client.delete(f"{CONFIGMAPS}/c")).status_code == 200
