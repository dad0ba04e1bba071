"""The RayCluster of a RayJob, and the Job that submits its entrypoint.

Mirrors ray-operator/controllers/ray/common/job.go.
"""

import copy
import json
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.yamltext import load_all

from dra_controller.jobkinds.operators import Custom
from dra_controller.jobkinds.ray.names import CREATED_BY, ORIGIN, ORIGIN_NAME

SUBMITTER = "ray-job-submitter"


def build_cluster(job: Custom, name: str) -> JsonObject:
    """Return the RayCluster of a job."""
    mode = job.spec.get("submissionMode", "K8sJobMode")
    spec = copy.deepcopy(job.spec["rayClusterSpec"])
    annotations = dict(job.metadata.annotations)
    if mode == "SidecarMode":
        annotations["ray.io/disable-provisioned-head-restart"] = "true"
        head = spec["headGroupSpec"]["template"]["spec"]
        head["containers"].append(_configure(job, _default_container(spec), sidecar=True))
        head["restartPolicy"] = "Never"
    labels = {**job.metadata.labels, ORIGIN_NAME: job.metadata.name, ORIGIN: "RayJob"}
    labels["ray.io/job-submission-mode"] = mode
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def build_submitter(job: Custom, cluster: JsonObject) -> JsonObject:
    """Return the Job that submits the entrypoint. ``cluster`` is the spec of the cluster."""
    labels = {ORIGIN_NAME: job.metadata.name, ORIGIN: "RayJob", CREATED_BY: "kuberay-operator"}
    given = job.spec.get("submitterPodTemplate")
    template: JsonObject = (
        copy.deepcopy(given) if given else {"spec": {"containers": [_default_container(cluster)]}}
    )
    if not given:
        template["spec"]["restartPolicy"] = "Never"
    _configure(job, template["spec"]["containers"][0], sidecar=False)
    meta = template.get("metadata") or {}
    template["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **labels}}
    limit = (job.spec.get("submitterConfig") or {}).get("backoffLimit", 2)
    return {
        "metadata": {"name": job.metadata.name, "labels": labels},
        "spec": {"backoffLimit": limit, "template": template},
    }


def _default_container(cluster: JsonObject) -> JsonObject:
    return {
        "name": SUBMITTER,
        "image": cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["image"],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "200Mi"},
        },
    }


def _configure(job: Custom, container: JsonObject, *, sidecar: bool) -> JsonObject:
    address = "http://127.0.0.1:8265" if sidecar else f"http://{job.status.get('dashboardURL', '')}"
    if sidecar or not container.get("command"):
        container["command"] = ["/bin/bash", "-ce", "--"]
        container["args"] = [submit_command(job, address, again=not sidecar)]
    container.setdefault("env", []).extend(
        [
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            {"name": "RAY_DASHBOARD_ADDRESS", "value": job.status.get("dashboardURL", "")},
            {"name": "RAY_JOB_SUBMISSION_ID", "value": job.status.get("jobId", "")},
        ]
    )
    return container


def submit_command(job: Custom, address: str, *, again: bool) -> str:
    """Return the command that submits the job.

    With ``again``, the command may run several times but submits the job only once. The operator's command
    first waits until the dashboard is healthy; here the cluster is ready before it runs.
    """
    spec, name = job.spec, job.status.get("jobId", "")
    words = ["ray", "job", "submit", "--address", address]
    if again:
        words.append("--no-wait")
    environment = spec.get("runtimeEnvYAML")
    if environment:
        values: list[Any] = [document.value for document in load_all(environment.encode())]
        words += ["--runtime-env-json", json.dumps(json.dumps(values[0], separators=(",", ":")))]
    if spec.get("metadata"):
        words += ["--metadata-json", json.dumps(json.dumps(spec["metadata"], separators=(",", ":")))]
    if name:
        words += ["--submission-id", name]
    for field, option in (("entrypointNumCpus", "cpus"), ("entrypointNumGpus", "gpus")):
        if spec.get(field):
            words += [f"--entrypoint-num-{option}", f"{spec[field]:f}"]
    if spec.get("entrypointResources"):
        words += ["--entrypoint-resources", json.dumps(spec["entrypointResources"])]
    words += ["--", spec.get("entrypoint", "").strip(), ";"]
    if not again:
        return " ".join(words)
    status = [
        "if",
        "!",
        "ray",
        "job",
        "status",
        "--address",
        address,
        name,
        ">/dev/null",
        "2>&1",
        ";",
        "then",
    ]
    follow = ["fi", ";", "ray", "job", "logs", "--address", address, "--follow", name]
    return " ".join([*status, *words, *follow])
