"""Test deployments, jobs and other workloads: selectors, templates and immutable fields."""

from typing import Any

import httpx
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

JOBS = "/apis/batch/v1/namespaces/default/jobs"
APPS = "/apis/apps/v1/namespaces/default"


def template(restart: str = "Always", **labels: str) -> JsonObject:
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": restart}
    return {"metadata": {"labels": labels}, "spec": spec}


def job(name: str = "j", **spec: Any) -> JsonObject:
    body = {"template": template("Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def workload(kind: str, **spec: Any) -> JsonObject:
    body = {"selector": {"matchLabels": {"app": "x"}}, "template": template(app="x"), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": body}


def causes(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]


async def test_a_job_selects_its_pods_by_its_uid(client: httpx.AsyncClient) -> None:
    answer = await client.post(JOBS, json=job())
    assert answer.status_code == 201, answer.text
    made = answer.json()
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]


async def test_a_job_without_labels_gets_those_of_its_template(client: httpx.AsyncClient) -> None:
    made = (await client.post(JOBS, json=job(template=template("Never", app="x")))).json()
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert set(labels) > {"app", "job-name"}
    assert made["metadata"]["labels"] == labels
    own = job(template=template("Never", app="x"))
    own["metadata"] = {"name": "own", "labels": {"app": "x"}}
    assert (await client.post(JOBS, json=own)).json()["metadata"]["labels"] == {"app": "x"}


async def test_changed_annotations_of_a_deployment_raise_its_generation(client: httpx.AsyncClient) -> None:
    for kind, generation in (("Deployment", 2), ("ReplicaSet", 1)):
        path = f"{APPS}/{kind.lower()}s"
        assert (await client.post(path, json=workload(kind))).status_code == 201
        for body in ({"metadata": {"annotations": {"a": "b"}}}, {"metadata": {"labels": {"a": "b"}}}):
            headers = {"content-type": "application/merge-patch+json"}
            answer = await client.patch(f"{path}/w", json=body, headers=headers)
            assert answer.json()["metadata"]["generation"] == generation
            body["metadata"] = {"annotations": {"by": "status"}}
            answer = await client.patch(f"{path}/w/status", json=body, headers=headers)
            assert answer.json()["metadata"]["generation"] == generation
            assert answer.json()["metadata"]["annotations"]["by"] == "status"


async def test_a_job_with_a_manual_selector_keeps_it(client: httpx.AsyncClient) -> None:
    selector = {"matchLabels": {"app": "x"}}
    wanted = job(manualSelector=True, selector=selector, template=template("Never", app="x"))
    made = (await client.post(JOBS, json=wanted)).json()
    assert made["spec"]["selector"] == selector
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "x"}


async def test_a_job_cannot_have_restart_policy_always(client: httpx.AsyncClient) -> None:
    answer = await client.post(JOBS, json=job(template=template("Always"), parallelism=-1))
    assert causes(answer) == [
        ("spec.parallelism", "Invalid value: -1: must be greater than or equal to 0"),
        ("spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"'),
    ]


async def test_the_template_of_a_job_is_immutable_unless_the_job_is_suspended(
    client: httpx.AsyncClient,
) -> None:
    await client.post(JOBS, json=job())
    merge = {"Content-Type": "application/merge-patch+json"}
    change = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    answer = await client.patch(f"{JOBS}/j", json=change, headers=merge)
    ((field, message),) = causes(answer)
    assert field == "spec.template"
    assert message.endswith(": field is immutable")
    assert (
        await client.patch(f"{JOBS}/j", json={"spec": {"parallelism": 3}}, headers=merge)
    ).status_code == 200
    assert causes(await client.patch(f"{JOBS}/j", json={"spec": {"completions": 3}}, headers=merge)) == [
        ("spec.completions", "Invalid value: 3: field is immutable")
    ]
    await client.post(JOBS, json=job("waits", suspend=True))
    answer = await client.patch(f"{JOBS}/waits", json=change, headers=merge)
    assert answer.status_code == 200, answer.text


@each_case(
    ("kind", "word"),
    [
        ("Deployment", "deployment"),
        ("ReplicaSet", "deployment"),
        ("StatefulSet", "statefulset"),
        ("DaemonSet", "daemonset"),
    ],
)
async def test_a_selector_is_required_and_must_match_the_template(
    client: httpx.AsyncClient, kind: str, word: str
) -> None:
    path = f"{APPS}/{kind.lower()}s"
    # A missing selector selects nothing. For a daemon set, the only error is that it is missing.
    unmatched = 'Invalid value: {"app":"x"}: `selector` does not match template `labels`'
    missing = [] if kind == "DaemonSet" else [("spec.selector", "Required value")]
    assert causes(await client.post(path, json=workload(kind, selector=None))) == [
        *missing,
        ("spec.template.metadata.labels", unmatched),
    ]
    assert causes(await client.post(path, json=workload(kind, selector={}))) == [
        ("spec.selector", f"Invalid value: {{}}: empty selector is invalid for {word}")
    ]
    mismatch = 'Invalid value: {"app":"y"}: `selector` does not match template `labels`'
    assert causes(await client.post(path, json=workload(kind, template=template(app="y")))) == [
        ("spec.template.metadata.labels", mismatch)
    ]


@each_case("kind", ["Deployment", "ReplicaSet", "DaemonSet"])
async def test_the_selector_of_a_workload_is_immutable(client: httpx.AsyncClient, kind: str) -> None:
    path = f"{APPS}/{kind.lower()}s"
    assert (await client.post(path, json=workload(kind))).status_code == 201
    other = workload(kind, selector={"matchLabels": {"app": "y"}}, template=template(app="y"))
    message = 'Invalid value: {"matchLabels":{"app":"y"}}: field is immutable'
    assert causes(await client.put(f"{path}/w", json=other)) == [("spec.selector", message)]


async def test_only_some_fields_of_a_stateful_set_can_change(client: httpx.AsyncClient) -> None:
    path = f"{APPS}/statefulsets"
    assert (await client.post(path, json=workload("StatefulSet"))).status_code == 201
    assert (
        await client.put(f"{path}/w", json=workload("StatefulSet", replicas=3, minReadySeconds=1))
    ).status_code == 200
    ((field, message),) = causes(
        await client.put(f"{path}/w", json=workload("StatefulSet", serviceName="other"))
    )
    assert field == "spec"
    assert message.startswith("Forbidden: updates to statefulset spec for fields other than 'replicas'")


async def test_resources_of_a_suspended_job_may_change(client: httpx.AsyncClient) -> None:
    made = (await client.post(JOBS, json=job(suspend=True))).json()
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "2"}}
    changed = await client.put(f"{JOBS}/j", json=made)
    assert changed.status_code == 200, changed.text
    del made["metadata"]["resourceVersion"]
    container["image"] = "other"
    found = causes(await client.put(f"{JOBS}/j", json=made))
    assert [(field, text[-18:]) for field, text in found] == [("spec.template.spec", "field is immutable")]


async def test_reserved_labels_of_a_job_are_rejected(client: httpx.AsyncClient) -> None:
    made = (await client.post(JOBS, json=job(suspend=True))).json()
    made["spec"]["template"]["metadata"]["labels"]["job-name"] = "other"
    assert (
        "spec.template.metadata.labels[job-name]",
        "must be 'j'",
    ) in [(field, text[-11:]) for field, text in causes(await client.put(f"{JOBS}/j", json=made))]


async def test_a_changed_immutable_field_of_a_stateful_set_is_the_only_error(
    client: httpx.AsyncClient,
) -> None:
    path = f"{APPS}/statefulsets"
    await client.post(path, json=workload("StatefulSet", serviceName="s"))
    answer = await client.put(f"{path}/w", json=workload("StatefulSet", serviceName="S"))
    assert [field for field, _ in causes(answer)] == ["spec"]


async def test_the_selector_error_of_a_daemon_set_is_the_first_error(client: httpx.AsyncClient) -> None:
    path = f"{APPS}/daemonsets"
    await client.post(path, json=workload("DaemonSet"))
    changed = workload("DaemonSet", selector={"matchLabels": {"app": "y"}})
    answer = await client.put(f"{path}/w", json=changed)
    assert [field for field, _ in causes(answer)] == ["spec.selector", "spec.template.metadata.labels"]


async def test_fields_of_a_rolling_update_are_optional(client: httpx.AsyncClient) -> None:
    path = f"{APPS}/statefulsets"
    made = (await client.post(path, json=workload("StatefulSet"))).json()
    defaults = {"partition": 0, "maxUnavailable": 1}
    assert made["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": defaults}
    updated = workload("StatefulSet", updateStrategy={"type": "RollingUpdate"})
    assert (await client.put(f"{path}/w", json=updated)).json()["spec"]["updateStrategy"] == {
        "type": "RollingUpdate"
    }
