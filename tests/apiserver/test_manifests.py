"""Test that manifests get a server's defaults, in the version that services read."""

import pytest
from dra_apiserver import offline
from dra_shared.jsontypes import JsonObject


def _pod_spec() -> JsonObject:
    return {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": 2}}}]}


def _workload(api_version: str, kind: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


def _template() -> JsonObject:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {**_pod_spec(), "restartPolicy": "Never"}}


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (_workload("v1", "Pod", _pod_spec()), []),
        (_workload("apps/v1", "Deployment", {"template": _template()}), ["template", "spec"]),
        (_workload("batch/v1", "Job", {"template": _template()}), ["template", "spec"]),
        (
            _workload("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": _template()}}}),
            ["jobTemplate", "spec", "template", "spec"],
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_requests_of_pods_and_of_templates_default_to_limits(obj: JsonObject, path: list[str]) -> None:
    spec = offline.complete_object(obj)["spec"]
    for name in path:
        spec = spec[name]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_older_versions_are_converted_and_unknown_kinds_are_kept() -> None:
    request = {"name": "r", "deviceClassName": "gpu"}
    flat = _workload("resource.k8s.io/v1beta1", "ResourceClaim", {"devices": {"requests": [request]}})
    (converted,) = offline.complete_object(flat)["spec"]["devices"]["requests"]
    assert converted["exactly"]["deviceClassName"] == "gpu"
    unknown = _workload("example.com/v1", "Widget", {"template": _template()})
    assert offline.complete_object(unknown) == unknown
