"""Objects that the clients create."""

from dra_shared.jsontypes import JsonObject

GPU: JsonObject = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
}


def template(name: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": GPU},
    }


def claim(name: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": GPU,
    }


def gpu_pod(name: str, template_name: str, command: str = "sleep 1000") -> JsonObject:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", command],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template_name}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    }


def deployment(name: str, replicas: int) -> JsonObject:
    labels = {"app": name}
    container = {"name": "c", "image": "nginx:1.25"}
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
