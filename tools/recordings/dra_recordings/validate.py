"""Replay recorded requests, and return the response in the form of the recorded one.

A case is processed like a client's request: decoded strictly, converted, defaulted, prepared and validated by
the functions that the handlers call.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from typing import Final, cast

import orjson
from dra_apiserver.admission import Chain
from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.errors import FieldError, StatusError
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind, split_api_version
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import Registry
from dra_apiserver.rest.create import before_create
from dra_apiserver.rest.meta import fill_system_fields, match_namespace
from dra_apiserver.rest.update import (
    check_common_fields,
    check_uid,
    check_version,
    prepare_update,
    validate_update,
)
from dra_apiserver.schema import DecodeError, decode, default, object_type
from dra_apiserver.schema.reader import strip
from dra_apiserver.storage import Record, object_key
from dra_apiserver.storage.records import canonical
from dra_apiserver.target import Target
from dra_apiserver.user import ADMINISTRATOR, UserInfo
from dra_apiserver.verdict import Warnings
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import RECORDED, Version, release

NOW: Final = "2000-01-01T00:00:00Z"
_UID: Final = "00000000-0000-0000-0000-000000000001"
# Fields that the server generates.
_OWN = ("uid", "creationTimestamp", "resourceVersion")


@functools.cache
def _registry(kubernetes: Version) -> Registry:
    return catalog.registry("api/all=true", kubernetes=kubernetes)


@functools.cache
def _recorded_gates(kubernetes: Version) -> dict[str, bool]:
    """Return the gates of cases that name none. Cases of all versions were recorded with the defaults of 1.36."""
    known = release(kubernetes).gates
    return {name: True for name, gate in release(RECORDED).gates.items() if gate.default and name in known}


def answer(case: JsonObject) -> JsonObject:
    """Return our response to ``{object, oldObject?, operation?, featureGates?, namespaces?, user?,
    generalChecks?, kubernetesVersion?}``.

    The result is ``{"server": {"allowed", "errors", "object"?, "warnings"?}}``, or ``{"oracleError": text}``
    if the body is rejected before validation.
    """
    out: JsonObject = {"name": case["name"]} if "name" in case else {}
    try:
        request = _Case(case)
        obj = request.decode(case["object"])
    except DecodeError as error:
        return {**out, "oracleError": str(error)}
    warnings = Warnings()
    try:
        stored = request.prepare(obj, warnings)
    except StatusError as error:
        causes = (error.status.get("details") or {}).get("causes") or []
        errors = [
            {"type": cause["reason"], "field": cause.get("field", ""), "body": cause["message"]}
            for cause in causes
        ]
        refused = {"allowed": False, "errors": errors, "statusReason": error.reason}
        return {**out, "server": {**refused, "message": error.message, "code": error.code}}
    server = {"allowed": True, "errors": [], "object": request.present(stored)}
    return {**out, "server": {**server, **({"warnings": warnings.texts} if warnings.texts else {})}}


class _Case:
    def __init__(self, case: JsonObject) -> None:
        self._case = case
        self._kubernetes = Version.parse(case.get("kubernetesVersion", str(RECORDED)))
        self._registry = _registry(self._kubernetes)
        obj = case["object"]
        group, version = split_api_version(obj["apiVersion"])
        kind = self._registry.kind(group, version, obj["kind"])
        if kind is None:
            raise DecodeError(f"no kind {obj['kind']!r} is registered for {obj['apiVersion']!r}")
        self._kind: Kind = kind
        self._version = version
        subresource = "status" if case.get("operation") == "statusUpdate" else ""
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            meta = {}
        self._target = Target(
            kind=kind,
            version=version,
            namespace=str(meta.get("namespace") or "") if kind.namespaced else "",
            name=str(meta.get("name") or ""),
            subresource=subresource,
        )

    def _context(self) -> Context:
        namespaces = {one["metadata"]["name"]: one for one in self._case.get("namespaces") or ()}
        checks = self._case.get("authorizationChecks") or ()
        user = self._case.get("user") or {}

        def lookup(group: str, plural: str, _: str, name: str) -> JsonObject | None:
            return namespaces.get(name) if (group, plural) == ("", "namespaces") else None

        def authorize(verb: str, resource: str, namespace: str, name: str) -> str | None:
            asked = (verb, resource, name)
            for check in checks:
                if (check["verb"], f"{check['resource']}/{check['subresource']}", check["name"]) == asked:
                    return None if check["allowed"] else check["reason"]
            return None

        return Context(
            kind=self._kind,
            version=self._version,
            namespace=self._target.namespace,
            now=NOW,
            features=FeatureGates(
                self._kubernetes, **(self._case.get("featureGates") or _recorded_gates(self._kubernetes))
            ),
            lookup=lookup,
            subresource=self._target.subresource,
            user=UserInfo(user["name"], tuple(user.get("groups") or ()), user.get("extra") or {})
            if user
            else ADMINISTRATOR,
            authorize=authorize,
            # Recordings are of validation, without admission.
            disabled_plugins=frozenset({"NodeDeclaredFeatureValidator"}),
        )

    def decode(self, obj: JsonObject, strict: bool = True) -> JsonObject:
        """Decode the object like the handlers, in the request's version.

        Raises:
            DecodeError: the body is rejected.
        """
        _, version = split_api_version(obj["apiVersion"])
        found = decode(
            self._registry,
            self._kind,
            version,
            json.dumps(obj).encode(),
            field_validation="Strict" if strict else "Ignore",
        ).obj
        if not isinstance(found.get("metadata"), dict):
            found["metadata"] = {}
        default(self._kind, version, found, NOW)
        return to_storage(self._kind, found, version) if not strict else found

    def prepare(self, obj: JsonObject, warnings: Warnings) -> JsonObject:
        """Return the object that would be stored.

        Raises:
            StatusError: the request is rejected.
        """
        request, target = cast(Request, warnings), self._target
        match_namespace(target, obj["metadata"])
        ctx = self._context()
        wanted = to_storage(self._kind, obj, self._version)
        if self._case.get("operation", "create") == "create":
            # The storage layer rejects it later. The comparison ends before that.
            wanted["metadata"].pop("resourceVersion", None)
            fill_system_fields(wanted, NOW)
            return before_create(request, target, wanted, ctx, Chain())
        old = self.decode(self._case["oldObject"], strict=False)
        version = wanted["metadata"].get("resourceVersion") or ""
        revision = int(version) if version.isascii() and version.isdecimal() else 1
        old["metadata"] |= {"resourceVersion": str(revision), "uid": old["metadata"].get("uid") or _UID}
        # Stored objects have no empty members.
        strip(object_type(self._kind, self._kind.storage_version), old)
        record = Record(object_key(target.namespace, target.name), revision, orjson.dumps(old))
        old = record.object()
        check_uid(target, wanted["metadata"], old["metadata"])
        check_version(target, wanted["metadata"], old["metadata"])
        prepare_update(target, wanted, old, ctx, Chain())
        # Recorded responses to updates are from the strategies alone, unless the case says otherwise.
        errors: list[FieldError] = []
        if self._case.get("generalChecks"):
            errors = check_common_fields(target, wanted["metadata"], old["metadata"])
            ctx = ctx._replace(metadata_good=not errors)
        validate_update(request, target, wanted, old, ctx, errors)
        strip(object_type(self._kind, self._kind.storage_version), wanted, old)
        return canonical(wanted)

    def present(self, stored: JsonObject) -> JsonObject:
        """Return the stored object as the client sees it, without fields that the server generates."""
        shown = convert(self._kind, stored, self._version)
        meta = {key: value for key, value in shown["metadata"].items() if key not in _OWN}
        return {**shown, "metadata": meta}


def agrees(ours: JsonObject, recorded: JsonObject) -> bool:
    """True if both allow the request, or both reject the same fields with errors of the same types."""
    if "oracleError" in recorded or "oracleError" in ours:
        return "oracleError" in recorded and "oracleError" in ours
    mine, theirs = ours["server"], recorded["server"]
    return mine["allowed"] == theirs["allowed"] and _fields(mine) == _fields(theirs)


def _fields(server: JsonObject) -> Counter[tuple[str, str]]:
    return Counter((error["type"], error["field"]) for error in server.get("errors") or ())
