"""Upstream's default admission plugins for new pods."""

from __future__ import annotations

import random

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import GroupResource, forbidden_error, quote
from dra_apiserver.kindkit.strategy import Context

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_ROOT_CERTIFICATE = "kube-root-ca.crt"
_DEFAULT_ACCOUNT = "default"
_PODS = GroupResource("", "pods")
_WAIT = 300
_TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def _new_pod(obj: JsonObject | None, ctx: Context, operation: str) -> JsonObject | None:
    if operation != "CREATE" or obj is None or ctx.subresource:
        return None
    return obj if (ctx.kind.group, ctx.kind.plural) == ("", "pods") else None


def service_account(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Set the service account of a pod, and mount its token and use its pull secrets (the ServiceAccount plugin).

    The account `default` may be missing, because a controller creates it, and a pod that is created before that
    must not be rejected.

    Raises:
        StatusError: 403, the pod names another account that does not exist.
    """
    pod = _new_pod(obj, ctx, operation)
    if pod is None or "kubernetes.io/config.mirror" in (pod["metadata"].get("annotations") or {}):
        return
    spec = pod.setdefault("spec", {})
    name = spec.get("serviceAccountName") or _DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = ctx.lookup("", "serviceaccounts", ctx.namespace, name)
    if account is None:
        if name != _DEFAULT_ACCOUNT:
            text = f"error looking up service account {ctx.namespace}/{name}: serviceaccount {quote(name)} not found"
            raise forbidden_error(_PODS, pod["metadata"].get("name", ""), text)
        account = {}
    secrets_of_account = account.get("imagePullSecrets") or []
    if secrets_of_account and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(one) for one in secrets_of_account]
    wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken"))
    if wanted is not False:
        _mount_token(spec)


def topology(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Add the labels of the node's region and zone to a pod that is created on a node (the PodTopologyLabels
    plugin).
    """
    pod = _new_pod(obj, ctx, operation)
    node_name = (pod.get("spec") or {}).get("nodeName") if pod is not None else None
    if pod is not None and node_name:
        labels = topology_labels(ctx.lookup("", "nodes", "", node_name))
        if labels:
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}


def topology_labels(node: JsonObject | None) -> dict[str, str]:
    """Return the labels of the node that its pods get too."""
    labels = (node["metadata"].get("labels") or {}) if node is not None else {}
    return {name: labels[name] for name in _TOPOLOGY if name in labels}


def _mount_token(spec: JsonObject) -> None:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    volumes = spec.get("volumes") or []
    found = next((v["name"] for v in volumes if str(v.get("name", "")).startswith("kube-api-access-")), None)
    name = found or "kube-api-access-" + "".join(random.choices(_ALPHABET, k=5))
    mounted = False
    for container in containers:
        mounts = container.get("volumeMounts") or []
        if any(mount.get("mountPath") == _MOUNT for mount in mounts):
            continue
        container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _MOUNT}]
        mounted = True
    if mounted and found is None:
        field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
        sources = [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": _ROOT_CERTIFICATE, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ]
        spec["volumes"] = [*volumes, {"name": name, "projected": {"sources": sources, "defaultMode": 420}}]


def default_tolerations(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Tolerate nodes that are not ready or unreachable for 5 minutes (the DefaultTolerationSeconds plugin).

    The tolerations are added on updates too, so that a client that replaces the pod need not repeat them.
    """
    pod = _new_pod(obj, ctx, "CREATE" if operation == "UPDATE" else operation)
    if pod is None:
        return
    spec = pod.setdefault("spec", {})
    tolerations = spec.get("tolerations") or []
    added = []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if any(
            toleration.get("key") in {None, "", key} and toleration.get("effect") in {None, "", "NoExecute"}
            for toleration in tolerations
        ):
            continue
        added.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _WAIT})
    if added:
        # The spec of an update may be the stored one, which must not change.
        pod["spec"] = {**spec, "tolerations": [*tolerations, *added]}
