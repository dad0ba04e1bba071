"""Test the decoding of bodies: messages, field validation, types and defaults."""

import json
from typing import Any

import orjson
import pytest
from dra_apiserver import schema
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import Registry
from dra_apiserver.schema.jsontext import syntax_error
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case
from tests.support.reference import reference_path
from tests.support.somekinds import widget

REGISTRY = catalog.registry("api/all=true")


def kind_of(group: str, plural: str) -> Kind:
    kind = REGISTRY.get(group, plural)
    assert kind is not None
    return kind


PODS = kind_of("", "pods")


def decode_pod(
    body: bytes, validation: str = "Warn", content_type: str = "application/json"
) -> schema.Decoded:
    return schema.decode(REGISTRY, PODS, "v1", body, content_type, validation)


def recorded_refusals() -> list[Any]:
    steps = json.loads(reference_path("golden", "http", "create-errors.json").read_text())
    return [
        pytest.param(step["request"], step["response"]["body"], id=f"create-errors-{index}")
        for index, step in enumerate(steps)
        if step["response"]["code"] in (400, 415) and "namespace" not in step["response"]["body"]["message"]
    ]


@each_case(("request_", "status"), recorded_refusals())
def test_bad_bodies_are_refused_as_recorded(request_: JsonObject, status: JsonObject) -> None:
    body = request_["body"]
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    content_type = request_["headers"].get("Content-Type", "application/json")
    with pytest.raises(schema.DecodeError) as caught:
        schema.decode(REGISTRY, kind_of("resource.k8s.io", "resourceclaims"), "v1", data, content_type)
    assert (caught.value.code, caught.value.reason, str(caught.value)) == (
        status["code"],
        status["reason"],
        status["message"],
    )


def test_a_body_in_another_api_version_than_the_path_is_rejected() -> None:
    claims = kind_of("resource.k8s.io", "resourceclaims")
    with pytest.raises(
        schema.DecodeError, match=r"does not match the expected API version \(resource.k8s.io/v1beta1\)"
    ):
        schema.decode(
            REGISTRY, claims, "v1beta1", b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim"}'
        )


ODD = b'{"metadata":{"name":"a","name":"b"},"spec":{"foo":1,"containers":[{"name":"c","Image":"x"}]}}'
PROBLEMS = [
    'duplicate field "metadata.name"',
    'unknown field "spec.foo"',
    'unknown field "spec.containers[0].Image"',
]


def test_strict_validation_refuses_unknown_and_duplicate_fields() -> None:
    with pytest.raises(schema.DecodeError) as caught:
        decode_pod(ODD, "Strict")
    expected = "strict decoding error: " + ", ".join(PROBLEMS)
    assert str(caught.value) == f'Pod in version "v1" cannot be handled as a Pod: {expected}'


def test_warnings_name_the_fields_that_are_dropped() -> None:
    decoded = decode_pod(ODD)
    assert decoded.warnings == PROBLEMS
    assert decoded.obj["spec"] == {"containers": [{"name": "c"}]}
    assert decoded.obj["metadata"] == {"name": "b"}


def test_unknown_fields_are_dropped_silently_if_validation_is_ignored() -> None:
    decoded = decode_pod(ODD, "Ignore")
    assert decoded.warnings == []
    assert "foo" not in decoded.obj["spec"]


def test_colons_in_strings_are_not_reported_as_duplicate_fields() -> None:
    body = orjson.dumps({"metadata": {"name": "a", "annotations": {"k:": 'x": "y\\'}}})
    assert decode_pod(body, "Strict").obj["metadata"]["annotations"] == {"k:": 'x": "y\\'}


@each_case(
    ("pod", "problem"),
    [
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"spec": {"containers": [{"name": 1}]}},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            {"spec": {"containers": ["x"]}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            {"spec": {"restartPolicy": True}},
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            {"spec": {"priority": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "many"}}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"status": {"startTime": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        ),
    ],
)
def test_errors_about_wrong_types_have_the_type_names_of_go(pod: JsonObject, problem: str) -> None:
    with pytest.raises(schema.DecodeError) as caught:
        decode_pod(orjson.dumps(pod))
    assert str(caught.value) == f'Pod in version "v1" cannot be handled as a Pod: {problem}'


def test_quantities_and_times_are_stored_in_canonical_form() -> None:
    pod = {
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1024Mi", "cpu": 2}}}]},
        "status": {"startTime": "2026-11-20T16:25:40.123+01:00"},
    }
    made = decode_pod(orjson.dumps(pod)).obj
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi", "cpu": "2"}
    assert made["status"]["startTime"] == "2026-11-20T15:25:40Z"


def test_nulls_and_zero_values_are_left_out() -> None:
    body = b'{"metadata":{"name":"a","labels":null},"spec":{"hostNetwork":false,"nodeName":"","containers":null}}'
    assert decode_pod(body).obj["spec"] == {}


def test_yaml_is_parsed_as_in_kubernetes() -> None:
    text = (
        b"kind: Pod\napiVersion: v1\nmetadata:\n  name: a\n  annotations: {when: 2026-01-01, t: '1:30'}\n"
        b"spec:\n  hostNetwork: yes\n  terminationGracePeriodSeconds: 010\n"
    )
    made = decode_pod(text, content_type="application/yaml").obj
    assert made["metadata"]["annotations"] == {"when": "2026-01-01", "t": "1:30"}
    assert made["spec"] == {"hostNetwork": True, "terminationGracePeriodSeconds": 8}


def test_yaml_duplicates_count_as_duplicates() -> None:
    decoded = decode_pod(b"metadata: {name: a, name: b}\n", content_type="application/yaml")
    assert decoded.warnings == ['duplicate field "metadata.name"']


def test_malformed_yaml_is_refused() -> None:
    with pytest.raises(schema.DecodeError, match="couldn't get version/kind; yaml: line"):
        decode_pod(b"{a: [", content_type="application/yaml")


@each_case(
    ("text", "message"),
    [
        (b"{", "unexpected end of JSON input"),
        (b"", "unexpected end of JSON input"),
        (b"{not", "invalid character 'n' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b'{"a":01}', "invalid character '1' after object key:value pair"),
        (b'{"a":"\x01"}', "invalid character '\\x01' in string literal"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        (b'{"a":"\\q"}', "invalid character 'q' in string escape code"),
    ],
)
def test_json_syntax_errors_equal_those_of_go(text: bytes, message: str) -> None:
    assert syntax_error(text) == message


def test_lone_surrogates_in_json_strings_are_replaced() -> None:
    made = decode_pod(b'{"metadata":{"name":"a","annotations":{"k":"\\ud800x"}}}').obj
    assert orjson.dumps(made)


def test_a_json_body_nested_100000_levels_deep_is_rejected() -> None:
    body = b'{"metadata":{"name":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    with pytest.raises(schema.DecodeError):
        decode_pod(body)


def test_too_deeply_nested_custom_schemas_are_rejected() -> None:
    depth = 330
    nested = b'{"properties":{"a":' * depth + b"{}" + b"}}" * depth
    body = b'{"spec":{"versions":[{"schema":{"openAPIV3Schema":' + nested + b"}}]}}"
    kind = kind_of("apiextensions.k8s.io", "customresourcedefinitions")
    with pytest.raises(schema.DecodeError, match="max depth"):
        schema.decode(REGISTRY, kind, "v1", body)


def complete(group: str, plural: str, obj: JsonObject) -> JsonObject:
    kind = kind_of(group, plural)
    version = kind.versions[0]
    made = schema.decode(REGISTRY, kind, version, orjson.dumps(obj), field_validation="Strict").obj
    schema.default(kind, version, made, "2026-11-20T15:00:00Z")
    return made


def test_deployments_get_defaults() -> None:
    spec = complete(
        "apps", "deployments", {"spec": {"template": {"spec": {"containers": [{"image": "a:1"}]}}}}
    )["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert spec["revisionHistoryLimit"] == 10
    assert spec["progressDeadlineSeconds"] == 600
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in pod
    assert pod["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_jobs_get_defaults() -> None:
    job = complete("batch", "jobs", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})
    assert job["metadata"]["labels"] == {"a": "b"}
    assert {key: job["spec"][key] for key in ("completions", "parallelism", "backoffLimit", "suspend")} == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "suspend": False,
    }


@each_case(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    pod = complete("", "pods", {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_claims_get_defaults_in_each_version() -> None:
    kind = kind_of("resource.k8s.io", "resourceclaims")
    flat: JsonObject = {"spec": {"devices": {"requests": [{"name": "a", "deviceClassName": "c"}]}}}
    schema.default(kind, "v1beta1", flat)
    assert flat["spec"]["devices"]["requests"][0]["count"] == 1
    nested = complete(
        "resource.k8s.io",
        "resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"tolerations": [{"key": "k"}]}}]}}},
    )
    exactly = nested["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly["allocationMode"] == "ExactCount"
    assert exactly["tolerations"] == [{"key": "k", "operator": "Equal"}]
    assert nested["status"] == {}


def test_requests_for_all_devices_get_no_default_count() -> None:
    claim = complete(
        "resource.k8s.io",
        "resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"allocationMode": "All"}}]}}},
    )
    assert "count" not in claim["spec"]["devices"]["requests"][0]["exactly"]


def test_time_added_of_a_taint_defaults_to_the_current_time() -> None:
    rule = complete(
        "resource.k8s.io", "devicetaintrules", {"spec": {"taint": {"key": "k", "effect": "NoExecute"}}}
    )
    assert rule["spec"]["taint"]["timeAdded"] == "2026-11-20T15:00:00Z"


def test_conditions_show_times_that_are_not_set() -> None:
    pod = complete("", "pods", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    condition = pod["status"]["conditions"][0]
    assert condition["lastProbeTime"] is None
    assert condition["lastTransitionTime"] is None


def test_defaulting_twice_changes_nothing() -> None:
    pod = complete(
        "", "pods", {"spec": {"containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 1}]}]}}
    )
    again = orjson.loads(orjson.dumps(pod))
    schema.default(PODS, "v1", again)
    assert again == pod


def custom_kind() -> Kind:
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "color": {"type": "string", "default": "red"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return widget({"type": "object", "properties": {"spec": spec}})


def test_custom_resources_are_pruned_and_defaulted_but_keep_wrong_types() -> None:
    kind = custom_kind()
    registry = Registry([kind])
    named = {"kind": kind.kind, "apiVersion": kind.api_version("v1")}
    spec = {"size": "big", "junk": 1, "free": {"any": [1]}}
    body = orjson.dumps({**named, "spec": spec, "other": 2})
    decoded = schema.decode(registry, kind, "v1", body)
    schema.default(kind, "v1", decoded.obj)
    assert decoded.obj["spec"] == {"size": "big", "free": {"any": [1]}, "color": "red"}
    assert decoded.warnings == ['unknown field "spec.junk"', 'unknown field "other"']


def test_the_result_of_a_patch_is_checked_for_wrong_types() -> None:
    broken: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}}
    with pytest.raises(schema.DecodeError) as caught:
        schema.sanitize(schema.object_type(PODS, "v1"), broken)
    assert caught.value.code == 422
    assert caught.value.causes[0]["field"] == "patch"


def test_empty_lists_are_validated_but_not_stored() -> None:
    pod = decode_pod(b'{"metadata":{"name":"a","labels":{}},"spec":{"tolerations":[]}}').obj
    assert pod["spec"] == {"tolerations": []}
    schema.strip(schema.object_type(PODS, "v1"), pod)
    assert pod["spec"] == {}
    assert pod["metadata"] == {"name": "a"}
