"""Audit events: one for each stage of a request that the policy selects (pkg/endpoints/filters/audit.go)."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import orjson
from dra_shared.cel.authorization import Decision
from dra_shared.clock import Clock, rfc3339_micro
from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger
from dra_shared.names import label_key

from dra_apiserver.access.requests import attributes_of
from dra_apiserver.audit.log import AuditLog
from dra_apiserver.audit.objects import as_decoded, decode_body, delete_options, may_be_status
from dra_apiserver.audit.policy import Decided, Level, Policy
from dra_apiserver.authorization.attributes import Attributes
from dra_apiserver.equality import copy_object
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.user import UserInfo

_LASTING = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_LEVEL_NAMES = {
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}
_STATUS = ("status", "message", "reason", "details")
_PREFIX = "authorization.k8s.io"
_LONGEST_AGENT = 1024
# Matches the warning of a deprecated version.
_GONE = re.compile(r"unavailable in v(\d+\.\d+)\+")

_log = logger(__name__)


class Auditor:
    """Creates an entry for each request that the policy selects."""

    def __init__(self, policy: Policy, log: AuditLog, clock: Clock) -> None:
        self._policy, self._log, self._clock = policy, log, clock
        if policy.unknown:
            _log.warning("fields of the audit policy are unknown", fields=", ".join(policy.unknown))
        self._failed = False

    def begin(self, request: Request, *, rejected: bool = False) -> None:
        """Create the audit entry of a request, once its user is known or it was `rejected` as unauthenticated."""
        wanted = attributes_of(request)
        decided = self._policy.decide(wanted)
        if decided.level is not Level.NONE:
            entry = request.audit = _Entry(self, request, wanted, decided, rejected=rejected)
            if not rejected:
                entry.emit("RequestReceived")

    def now(self) -> str:
        """Return the current time in the format of events."""
        return rfc3339_micro(self._clock.now())

    def write(self, event: JsonObject) -> None:
        """Append an event. If the log cannot be written, report that once."""
        try:
            self._log.write(orjson.dumps(event))
        except OSError as error:
            if not self._failed:
                _log.error("audit events are lost", error=str(error))
            self._failed = True
        else:
            self._failed = False


class _Entry:
    """The audit entry of one request."""

    def __init__(
        self, auditor: Auditor, request: Request, wanted: Attributes, decided: Decided, *, rejected: bool
    ) -> None:
        self._auditor = auditor
        self._rejected = rejected
        self._request = request
        self._decided = decided
        self._user = request.user
        self._verb = wanted.verb
        self._received = auditor.now()
        self._object = _reference(request, wanted)
        self._lasting = wanted.verb == "watch" or wanted.subresource in _LASTING
        self._asked: Any = None
        self._answer: Any = None
        self._annotations: dict[str, str] = {}
        self._status: JsonObject = {}
        self._deprecated = ""
        self._panic = ""

    def record_decision(self, decision: Decision) -> None:
        """Record the authorizer's decision."""
        self._annotations[f"{_PREFIX}/decision"] = "allow" if decision.allowed else "forbid"
        self._annotations[f"{_PREFIX}/reason"] = decision.reason

    def annotate(self, key: str, value: str, *, detailed: bool = False) -> None:
        """Add an annotation (apiserver's `admission.Attributes` and `audit.AddAuditAnnotation`).

        The first value of a key is kept. A `detailed` annotation is left out if only the request's metadata is
        logged.
        """
        if detailed and self._decided.level < Level.REQUEST:
            return
        problems = label_key(key) if key.count("/") == 1 else ["must have a prefix and a name"]
        if problems:
            _log.warning("audit annotation is not recorded", key=key, reason="; ".join(problems))
        elif self._annotations.setdefault(key, value) != value:
            _log.warning("audit annotation is already set", key=key, value=value)

    def record_body(self, body: bytes, content_type: str) -> None:
        """Record the request's body if it is a patch or the options of a delete.

        Objects are recorded after decoding.
        """
        if self._decided.level < Level.REQUEST or self._request.method not in ("PATCH", "DELETE"):
            return
        obj = decode_body(body, content_type)
        self._asked = delete_options(obj) if self._request.method == "DELETE" else obj

    def record_decoded(self, kind: Kind, version: str, obj: JsonObject) -> None:
        """Record the object of the request, of a served kind."""
        self._names(obj)
        if self._decided.level >= Level.REQUEST:
            self._asked = as_decoded(kind, version, obj, self._received)

    def record_object(self, obj: JsonObject) -> None:
        """Record the object of the request, of a type that is not a served kind."""
        self._names(obj)
        if self._decided.level >= Level.REQUEST:
            self._asked = copy_object(obj)

    def _names(self, obj: JsonObject) -> None:
        meta = obj.get("metadata")
        if not isinstance(meta, dict) or self._object is None:
            return
        for field in ("namespace", "name", "uid", "resourceVersion"):
            if meta.get(field):
                self._object.setdefault(field, meta[field])

    def record_deprecation(self, warning: str) -> None:
        """Record that the requested API is deprecated."""
        self._deprecated = warning

    def record_response(self, body: bytes, media_type: str) -> None:
        """Record the response body."""
        whole = self._decided.level >= Level.REQUEST_RESPONSE
        obj = decode_body(body, media_type) if whole or may_be_status(body, media_type) else None
        if isinstance(obj, dict) and obj.get("kind") == "Status":
            self._status = {field: obj[field] for field in _STATUS if obj.get(field)}
        if whole:
            self._answer = obj

    def start_response(self) -> None:
        """Emit the stage ResponseStarted if the response may take long, as of a watch."""
        if self._lasting:
            self.emit("ResponseStarted")

    def record_failure(self, error: Exception) -> None:
        """Record an unexpected exception, which is a panic in upstream's server."""
        self._panic = f"APIServer panic'd: {error}"

    def complete(self) -> None:
        """Emit the last event.

        As upstream, a response to invalid credentials is logged with the stage ResponseStarted.
        """
        if self._deprecated:
            self._annotations["k8s.io/deprecated"] = "true"
            if gone := _GONE.search(self._deprecated):
                self._annotations["k8s.io/removed-release"] = gone[1]
        if self._panic:
            # The response is not the one that the handler intended.
            self._status = {"status": "Failure", "message": self._panic, "reason": "InternalError"}
            self._answer = None
            self.emit("Panic", 500)
        else:
            self.emit("ResponseStarted" if self._rejected else "ResponseComplete")

    def emit(self, stage: str, code: int = 0) -> None:
        """Emit the event of a stage, unless the policy omits that stage. `code` replaces the response's status code."""
        if stage in self._decided.omitted:
            return
        request, code = self._request, code or self._request.code
        event: JsonObject = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": _LEVEL_NAMES[self._decided.level],
            "auditID": request.id,
            "stage": stage,
            "requestURI": _uri(request),
            "verb": self._verb,
            "user": {} if self._rejected else _user_fields(self._user),
        }
        if request.user is not self._user and not self._rejected:
            event["impersonatedUser"] = _user_fields(request.user)
        event["sourceIPs"] = _sources(request)
        if agent := request.header(b"user-agent"):
            event["userAgent"] = (
                agent if len(agent) <= _LONGEST_AGENT else f"{agent[:_LONGEST_AGENT]}...TRUNCATED"
            )
        if self._object is not None:
            event["objectRef"] = dict(self._object)
        if stage != "RequestReceived":
            event["responseStatus"] = {"metadata": {}, **self._status, "code": code}
            if self._asked is not None:
                event["requestObject"] = self._without_managed(self._asked)
            if self._answer is not None:
                event["responseObject"] = self._without_managed(self._answer)
        event["requestReceivedTimestamp"] = self._received
        event["stageTimestamp"] = self._auditor.now() if stage != "RequestReceived" else self._received
        if self._annotations:
            event["annotations"] = self._annotations
        self._auditor.write(event)

    def _without_managed(self, obj: Any) -> Any:
        if not self._decided.omit_managed_fields or not isinstance(obj, dict):
            return obj
        made = dict(obj)
        if isinstance(made.get("metadata"), dict):
            made["metadata"] = {
                key: value for key, value in made["metadata"].items() if key != "managedFields"
            }
        if isinstance(made.get("items"), list):
            made["items"] = [self._without_managed(item) for item in made["items"]]
        if made.get("kind") == "Table" and isinstance(made.get("rows"), list):
            made["rows"] = [
                {**row, "object": self._without_managed(row["object"])} if "object" in row else row
                for row in made["rows"]
            ]
        return made


def _reference(request: Request, wanted: Attributes) -> JsonObject | None:
    if wanted.path is not None:
        return None
    parts = request.path.strip("/").split("/")
    fields = {
        "resource": wanted.resource,
        "namespace": wanted.namespace,
        "name": wanted.name,
        "apiGroup": wanted.group,
        "apiVersion": parts[2] if parts[0] == "apis" else parts[1],
        "subresource": wanted.subresource,
    }
    return {field: value for field, value in fields.items() if value}


def _user_fields(user: UserInfo) -> JsonObject:
    fields = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {field: value for field, value in fields.items() if value}


def _uri(request: Request) -> str:
    query = request.scope["query_string"]
    raw: bytes | None = request.scope.get("raw_path")
    path = request.path if raw is None else raw.decode("latin-1")
    return f"{path}?{query.decode('latin-1')}" if query else path


def _sources(request: Request) -> list[str]:
    """Return the addresses in proxy headers and of the client (apimachinery's net.SourceIPs)."""
    found = list(filter(None, map(_address, request.header(b"x-forwarded-for").split(","))))
    real = _address(request.header(b"x-real-ip"))
    if real and real not in found:
        found.append(real)
    client = request.scope.get("client")
    own = _address(client[0] if client else "")
    if own and own not in found[-1:]:
        found.append(own)
    return found


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return ""
