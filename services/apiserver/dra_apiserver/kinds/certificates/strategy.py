"""The strategy of certificate signing requests (``pkg/registry/certificates``)."""

from __future__ import annotations

import base64
import binascii
import re

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.common.objectmeta import validate_metadata, validate_metadata_update
from dra_apiserver.errors import FieldError, duplicate, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.schema import same_items

_CONDITION = "io.k8s.api.certificates.v1.CertificateSigningRequestCondition"
_APPROVED, _DENIED = "Approved", "Denied"
_LASTING = (_APPROVED, _DENIED, "Failed")
_STATES = ("False", "True", "Unknown")
_SHORTEST = 600
_LONGEST_SIGNER = 571
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s+[A-Za-z0-9+/=\s]+-----END \1-----")


class SigningRequestStrategy(GenericStrategy):
    """The strategy of signing requests. The server records the requesting user. The request itself is immutable."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the requesting user, and clear the status."""
        spec = obj.setdefault("spec", {})
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        spec["username"] = ctx.user.name
        if ctx.user.groups:
            spec["groups"] = list(ctx.user.groups)
        obj["status"] = {}
        # The server sets these fields itself, whatever the client wrote.
        obj["metadata"].pop("managedFields", None)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep all fields but metadata, the decision if `approval` is updated, and the certificate if `status` is."""
        now = dict(obj.get("status") or {})
        before = old.get("status") or {}
        obj["spec"] = old.get("spec") or {}
        if not ctx.subresource:
            obj["status"] = before
            return
        conditions = [dict(one) for one in now.get("conditions") or ()]
        if ctx.subresource == "status":
            _keep(conditions, before.get("conditions") or [])
        else:
            now = dict(before)
        _date(conditions, before.get("conditions") or [], ctx.now)
        now.pop("conditions", None)
        obj["status"] = {**now, "conditions": conditions} if conditions else now

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and the request."""
        return validate_metadata(obj["metadata"], False, lambda name, prefix: []) + _check(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate the request. A decision is final."""
        errors = _check(obj) + validate_metadata_update(obj["metadata"], old["metadata"])
        path = "status.conditions"
        for kind in _LASTING:
            if len(_of(obj, kind)) < len(_of(old, kind)):
                text = f'updates may not remove a condition of type "{kind}"'
                errors.append(forbidden_field(path, text))
        if ctx.subresource != "approval":
            for kind in (_APPROVED, _DENIED):
                now, before = _of(obj, kind), _of(old, kind)
                if len(now) > len(before):
                    text = f'updates may not add a condition of type "{kind}"'
                    errors.append(forbidden_field(path, text))
                elif len(now) == len(before) and not same_items(_CONDITION, now, before):
                    text = f'updates may not modify a condition of type "{kind}"'
                    errors.append(forbidden_field(path, text))
        certificate = (old.get("status") or {}).get("certificate")
        if certificate and (obj.get("status") or {}).get("certificate") != certificate:
            text = "updates may not modify status.certificate once it has been set"
            errors.append(forbidden_field("status.certificate", text))
        return errors


def _of(obj: JsonObject, kind: str) -> list[JsonObject]:
    return [one for one in (obj.get("status") or {}).get("conditions") or () if one.get("type") == kind]


def _keep(conditions: list[JsonObject], before: list[JsonObject]) -> None:
    """Keep the Approved and Denied conditions in a status update."""
    for kind in (_APPROVED, _DENIED):
        places = [index for index, one in enumerate(conditions) if one.get("type") == kind]
        known = [one for one in before if one.get("type") == kind]
        if len(places) == len(known):
            for index, one in zip(places, known, strict=True):
                conditions[index] = dict(one)


def _date(conditions: list[JsonObject], before: list[JsonObject], now: str) -> None:
    for one in conditions:
        one["lastUpdateTime"] = one.get("lastUpdateTime") or now
        if not one.get("lastTransitionTime"):
            same = (
                known.get("lastTransitionTime")
                for known in before
                if (known.get("type"), known.get("status")) == (one.get("type"), one.get("status"))
            )
            one["lastTransitionTime"] = next(filter(None, same), now)


def _request_problem(request: str) -> str:
    try:
        text = base64.b64decode(request)
    except (binascii.Error, ValueError):
        text = b""
    found = _PEM.search(text)
    good = found is not None and found.group(1) == b"CERTIFICATE REQUEST"
    return "" if good else "PEM block type must be CERTIFICATE REQUEST"


def _check(obj: JsonObject) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    problem = _request_problem(spec.get("request") or "")
    if problem:
        errors.append(invalid("spec.request", spec.get("request") or "", problem))
    usages = spec.get("usages") or []
    if not usages:
        errors.append(missing_field("spec.usages"))
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            errors.append(not_supported(f"spec.usages[{index}]", usage, _USAGES))
    errors += [duplicate(f"spec.usages[{index}]", usages[index]) for index in sorted(find_repeated(usages))]
    errors += _check_signer(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, text))
    return errors + _check_conditions((obj.get("status") or {}).get("conditions") or [])


def _check_signer(name: str) -> list[FieldError]:
    path = "spec.signerName"
    if not name:
        return [missing_field(path)]
    if name == "kubernetes.io/legacy-unknown":
        return [invalid(path, name, "the legacy signerName is not allowed via this API version")]
    domain, slash, rest = name.partition("/")
    if not slash:
        return [
            invalid(
                path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            )
        ]
    errors = [invalid(path, domain, text) for text in dns_subdomain(domain)]
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, text))
    for part in rest.split("/"):
        errors += [invalid(path, part, text) for text in dns_subdomain(part)]
    if len(name) > _LONGEST_SIGNER:
        text = f"must be no more than {_LONGEST_SIGNER} characters"
        errors.append(invalid(path, name, text))
    return errors


def _check_conditions(conditions: list[JsonObject]) -> list[FieldError]:
    path = "status.conditions"
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, one in enumerate(conditions):
        kind, state = one.get("type") or "", one.get("status") or ""
        if not kind:
            errors.append(missing_field(f"{path}[{index}].type"))
        allowed = ("True",) if kind in _LASTING else _STATES
        if not state:
            errors.append(missing_field(f"{path}[{index}].status"))
        elif state not in allowed:
            errors.append(not_supported(f"{path}[{index}].status", state, allowed))
        other = {_APPROVED: _DENIED, _DENIED: _APPROVED}.get(kind)
        if other in seen:
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid(path, kind, text))
        if kind in seen:
            errors.append(duplicate(f"{path}[{index}].type", kind))
        seen.add(kind)
    return errors
