"""Which kinds warn of what: the ``WarningsOnCreate`` and ``WarningsOnUpdate`` of upstream's ``pkg/registry``."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dra_shared.names import dns_label
from dra_shared.quantity import Quantity

from dra_apiserver.equality import differs
from dra_apiserver.warnings.addresses import address_warnings, range_warnings
from dra_apiserver.warnings.nodelabels import DEPRECATED, selector_warnings, term_warnings
from dra_apiserver.warnings.pods import pod_warnings
from dra_apiserver.warnings.volumes import claim_warnings, persistent_source_warnings

JsonObject = dict[str, Any]
_Warn = Callable[[JsonObject, JsonObject | None], Iterable[str]]

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_USE_CLASS_NAME = 'deprecated since v1.8; use "storageClassName" attribute instead'
_BETA_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_USE_MOUNT_OPTIONS = 'deprecated since v1.31; use "mountOptions" attribute instead'
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_TOKEN_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
_HUGE_INDEXED_JOB = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)
_COMPLETIONS, _PARALLELISM = 100_000, 10_000


def warnings_on_create(obj: JsonObject, resource: tuple[str, str, str]) -> list[str]:
    """Of a new, valid object of (group, plural, subresource)."""
    warn = _WARN.get(resource)
    return [] if warn is None else list(warn(obj, None))


def warnings_on_update(obj: JsonObject, old: JsonObject, resource: tuple[str, str, str]) -> list[str]:
    """Of a changed, valid object of (group, plural, subresource)."""
    warn = _WARN.get(resource)
    return [] if warn is None else list(warn(obj, old))


def _annotations(obj: JsonObject) -> JsonObject:
    return obj["metadata"].get("annotations") or {}


def _spec(obj: JsonObject) -> JsonObject:
    return obj.get("spec") or {}


def _name(obj: JsonObject, old: JsonObject | None, used: str = "in Pod names and hostnames") -> Iterator[str]:
    if old is None and (problems := dns_label(obj["metadata"].get("name", ""))):
        yield (
            f"metadata.name: this is used {used}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(problems)}]"
        )


def _changed(obj: JsonObject, old: JsonObject | None) -> bool:
    return old is None or obj["metadata"].get("generation") != old["metadata"].get("generation")


def _pod(pod: JsonObject, old: JsonObject | None) -> Iterator[str]:
    # Not on changes: people don't make them, and there are many.
    if old is None:
        yield from _name(pod, old, "in the Pod's hostname")
        yield from pod_warnings(pod)


def _pod_status(pod: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for field in ("podIPs", "hostIPs"):
        for index, address in enumerate((pod.get("status") or {}).get(field) or ()):
            yield from address_warnings(f"status.{field}[{index}].ip", address.get("ip", ""))


def _template(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if _changed(obj, old):
        yield from pod_warnings(_spec(obj).get("template") or {}, "spec.template.")


def _named_template(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from _name(obj, old)
    yield from _template(obj, old)


def _replication_controller(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from _name(obj, old)
    if _changed(obj, old):
        # Upstream looks at the template that was.
        yield from pod_warnings(_spec(old or obj).get("template") or {}, "spec.template.")


def _pod_template(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if _changed(obj, old):
        yield from pod_warnings(obj.get("template") or {}, "template.")


def _stateful_set(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from _template(obj, old)
    spec = _spec(obj)
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        below = "" if old is None else ".Spec"
        yield from claim_warnings(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]{below}")
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        )


def _job_spec(spec: JsonObject, path: str) -> Iterator[str]:
    huge = (spec.get("completions") or 0) > _COMPLETIONS and (spec.get("parallelism") or 0) > _PARALLELISM
    if huge and spec.get("completionMode") == "Indexed":
        yield f"{path}: {_HUGE_INDEXED_JOB}"
    yield from pod_warnings(spec.get("template") or {}, f"{path}.template.")


def _job(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from _name(obj, old)
    if _changed(obj, old):
        yield from _job_spec(_spec(obj), "spec")


def _cron_job(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from _name(obj, old)
    if _changed(obj, old):
        yield from _job_spec((_spec(obj).get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
    if old is not None and "TZ" in _spec(obj).get("schedule", ""):
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )


def _node(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    spec = _spec(obj)
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, value in enumerate(spec.get("podCIDRs") or ()):
        yield from range_warnings(f"spec.podCIDRs[{index}]", value)


def _quota(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if old is not None:
        return
    hard = _spec(obj).get("hard") or {}
    for name in ("cpu", "memory", "storage", "ephemeral-storage"):
        request = f"requests.{name}"
        if request not in hard and name in ("cpu", "memory"):
            request = name
        limit = f"limits.{name}"
        if request not in hard or limit not in hard:
            continue
        least, most = Quantity.parse(str(hard[request])), Quantity.parse(str(hard[limit]))
        if least.compare(most) > 0:
            yield f"ResourceQuota {request} ({least}) should be less than {limit} ({most})"


def _volume(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    annotations, spec = _annotations(obj), _spec(obj)
    for key, text in ((_BETA_CLASS, _USE_CLASS_NAME), (_BETA_MOUNT_OPTIONS, _USE_MOUNT_OPTIONS)):
        if key in annotations:
            yield f"metadata.annotations[{key}]: {text}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the "
            "recommended approach is to use dynamic provisioning."
        )
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
        yield from term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    yield from persistent_source_warnings(spec)


def _claim(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if _BETA_CLASS in _annotations(obj):
        yield f"metadata.annotations[{_BETA_CLASS}]: {_USE_CLASS_NAME}"
    yield from claim_warnings(_spec(obj), "spec")


def _service_account(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if _MOUNTABLE in _annotations(obj) and (old is None or _MOUNTABLE not in _annotations(old)):
        yield (
            f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate "
            "access to mounted secrets"
        )


def _secret(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if obj.get("type") != "kubernetes.io/tls":
        return
    data = obj.get("data") or {}
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in b64decode(data.get(key) or ""):
            yield f"tls: failed to find any PEM data in {what} input"
            return


def _endpoints(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for number, subset in enumerate(obj.get("subsets") or ()):
        for field in ("addresses", "notReadyAddresses"):
            for index, address in enumerate(subset.get(field) or ()):
                path = f"subsets[{number}].{field}[{index}].ip"
                yield from address_warnings(path, address.get("ip", ""))


def _endpoint_slice(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if obj.get("addressType") == "FQDN":
        if old is None:
            yield "spec.addressType: FQDN endpoints are deprecated"
        return
    for number, endpoint in enumerate(obj.get("endpoints") or ()):
        for index, address in enumerate(endpoint.get("addresses") or ()):
            yield from address_warnings(f"endpoints[{number}].addresses[{index}]", address)


def _ingress(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if old is None and _INGRESS_CLASS in _annotations(obj) and _spec(obj).get("ingressClassName") is None:
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


def _load_balancer(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    for index, ingress in enumerate(balancer.get("ingress") or ()):
        yield from address_warnings(f"status.loadBalancer.ingress[{index}]", ingress.get("ip", ""))


def _network_policy(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for rules, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(_spec(obj).get(rules) or ()):
            for index, peer in enumerate(rule.get(peers) or ()):
                block, path = peer.get("ipBlock") or {}, f"spec.{rules}[{number}].{peers}[{index}].ipBlock"
                yield from range_warnings(f"{path}.cidr", block.get("cidr", ""))
                for position, value in enumerate(block.get("except") or ()):
                    yield from range_warnings(f"{path}.except[{position}]", value)


def _runtime_class(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for key in (obj.get("scheduling") or {}).get("nodeSelector") or {}:
        if key in DEPRECATED:
            yield f"scheduling.nodeSelector: {DEPRECATED[key]}"


def _storage_class(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for number, term in enumerate(obj.get("allowedTopologies") or ()):
        for index, expression in enumerate(term.get("matchLabelExpressions") or ()):
            if (key := expression.get("key", "")) in DEPRECATED:
                yield (f"allowedTopologies[{number}].matchLabelExpressions[{index}].key: {DEPRECATED[key]}")


def _storage_capacity(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from selector_warnings(obj.get("nodeTopology"), "nodeTopology")


def _csi_driver(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    spec = _spec(obj)
    wanted = spec.get("tokenRequests")
    told = spec.get("serviceAccountTokenInSecrets") is not None
    if wanted and not told and (old is None or differs(wanted, _spec(old).get("tokenRequests"))):
        yield _TOKEN_IN_SECRETS


_WARN: Mapping[tuple[str, str, str], _Warn] = {
    ("", "endpoints", ""): _endpoints,
    ("", "nodes", ""): _node,
    ("", "persistentvolumeclaims", ""): _claim,
    ("", "persistentvolumes", ""): _volume,
    ("", "pods", ""): _pod,
    ("", "pods", "status"): _pod_status,
    ("", "podtemplates", ""): _pod_template,
    ("", "replicationcontrollers", ""): _replication_controller,
    ("", "resourcequotas", ""): _quota,
    ("", "secrets", ""): _secret,
    ("", "serviceaccounts", ""): _service_account,
    ("", "services", "status"): _load_balancer,
    ("apps", "daemonsets", ""): _template,
    ("apps", "deployments", ""): _named_template,
    ("apps", "replicasets", ""): _named_template,
    ("apps", "statefulsets", ""): _stateful_set,
    ("batch", "cronjobs", ""): _cron_job,
    ("batch", "jobs", ""): _job,
    ("discovery.k8s.io", "endpointslices", ""): _endpoint_slice,
    ("networking.k8s.io", "ingresses", ""): _ingress,
    ("networking.k8s.io", "ingresses", "status"): _load_balancer,
    ("networking.k8s.io", "networkpolicies", ""): _network_policy,
    ("node.k8s.io", "runtimeclasses", ""): _runtime_class,
    ("storage.k8s.io", "csidrivers", ""): _csi_driver,
    ("storage.k8s.io", "csistoragecapacities", ""): _storage_capacity,
    ("storage.k8s.io", "storageclasses", ""): _storage_class,
}
