"""Warnings of nodes, quotas, service accounts and secrets (their strategies' WarningsOnCreate and WarningsOnUpdate)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

from dra_apiserver.common.addresswarnings import range_warnings
from dra_apiserver.common.warnings import annotations_of, spec_of

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


def node(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    spec = spec_of(obj)
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, value in enumerate(spec.get("podCIDRs") or ()):
        yield from range_warnings(f"spec.podCIDRs[{index}]", value)


def quota(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if old is not None:
        return
    hard = spec_of(obj).get("hard") or {}
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


def service_account(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if _MOUNTABLE in annotations_of(obj) and (old is None or _MOUNTABLE not in annotations_of(old)):
        yield (
            f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate "
            "access to mounted secrets"
        )


def secret(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    if obj.get("type") != "kubernetes.io/tls":
        return
    data = obj.get("data") or {}
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in b64decode(data.get(key) or ""):
            yield f"tls: failed to find any PEM data in {what} input"
            return
