"""Columns of signing requests and trust bundles (upstream's `pkg/printers/internalversion`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.durations import human_duration
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.cells import NONE, labels_text
from dra_apiserver.common.objectcells import age, name, part


def signing_request(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    conditions = {one.get("type") for one in part(obj, "status").get("conditions") or ()}
    states = [kind for kind in ("Denied", "Approved", "Failed") if kind in conditions] or ["Pending"]
    if part(obj, "status").get("certificate"):
        states.append("Issued")
    seconds = spec.get("expirationSeconds")
    duration = NONE if seconds is None else human_duration(seconds)
    signer = spec.get("signerName") or NONE
    return [name(obj), age(obj, now), signer, spec.get("username", ""), duration, ",".join(states)]


def trust_bundle(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "spec").get("signerName") or NONE]


def pod_certificate_request(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the cells of a PodCertificateRequest.

    The state is the type of its last condition that is Issued, Denied or Failed.
    """
    spec = part(obj, "spec")
    kinds = [one.get("type") for one in part(obj, "status").get("conditions") or ()]
    states = [kind for kind in kinds if kind in ("Issued", "Denied", "Failed")] or ["Pending"]
    shown = [spec.get(field, "") for field in ("podName", "serviceAccountName", "nodeName", "signerName")]
    return [name(obj), *shown, states[-1], labels_text(spec.get("unverifiedUserAnnotations"))]


def pod_certificate_request_of_1_34(obj: JsonObject, now: datetime) -> list[Any]:
    """Return the same cells without annotations, which requests of 1.34 do not have."""
    return pod_certificate_request(obj, now)[:-1]
