"""Warnings of volumes, their claims and classes (their strategies' WarningsOnCreate and WarningsOnUpdate)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.nodelabels import DEPRECATED, selector_warnings, term_warnings
from dra_apiserver.common.warnings import annotations_of, spec_of
from dra_apiserver.kinds.pods.volumewarnings import claim_warnings, persistent_source_warnings
from dra_apiserver.schema import same_members

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_USE_CLASS_NAME = 'deprecated since v1.8; use "storageClassName" attribute instead'
_BETA_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_USE_MOUNT_OPTIONS = 'deprecated since v1.31; use "mountOptions" attribute instead'
_TOKEN_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def volume(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    annotations, spec = annotations_of(obj), spec_of(obj)
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


def claim(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if _BETA_CLASS in annotations_of(obj):
        yield f"metadata.annotations[{_BETA_CLASS}]: {_USE_CLASS_NAME}"
    yield from claim_warnings(spec_of(obj), "spec")


def storage_class(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for number, term in enumerate(obj.get("allowedTopologies") or ()):
        for index, expression in enumerate(term.get("matchLabelExpressions") or ()):
            if (key := expression.get("key", "")) in DEPRECATED:
                yield (f"allowedTopologies[{number}].matchLabelExpressions[{index}].key: {DEPRECATED[key]}")


def storage_capacity(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    yield from selector_warnings(obj.get("nodeTopology"), "nodeTopology")


def csi_driver(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    spec = spec_of(obj)
    wanted = spec.get("tokenRequests")
    in_secrets = spec.get("serviceAccountTokenInSecrets") is not None
    kept = old is not None and same_members(
        "io.k8s.api.storage.v1.CSIDriverSpec", spec, spec_of(old), "tokenRequests"
    )
    if wanted and not in_secrets and not kept:
        yield _TOKEN_IN_SECRETS
