"""The attributes of a request for policies and webhooks (apiserver's admission.Attributes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dra_shared.jsontypes import JsonObject

from dra_apiserver.authorization import Authorizer
from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.equality import copy_object
from dra_apiserver.errors import GroupResource, StatusError, forbidden_error
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.registry import Registry
from dra_apiserver.schema import object_type, strip
from dra_apiserver.target import Target

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Place(NamedTuple):
    """A resource in a version, and the kind of the objects in requests for it."""

    group: str
    version: str
    resource: str
    kind: tuple[str, str, str]


def _kind_of(info: Kind, version: str, subresource: str) -> tuple[str, str, str]:
    part = info.subresources.get(subresource)
    if part is None or part.kind == info.kind:
        return info.group, version, info.kind
    return part.group, part.version, part.kind


def places(registry: Registry, target: Target) -> list[Place]:
    """Return the request's own resource, then other resources and versions of the same objects."""
    mine = _place(target.kind, target.version, target.subresource)
    others = [
        _place(info, version, target.subresource)
        for info in registry
        if info.storage == target.kind.storage
        for version in info.versions
        if not target.subresource or target.subresource in info.subresources
    ]
    return [mine, *(one for one in others if one != mine)]


def _place(info: Kind, version: str, subresource: str) -> Place:
    return Place(info.group, version, info.plural, _kind_of(info, version, subresource))


@dataclass(slots=True)
class Attributes:
    """One request at one point of its processing. Objects are in the storage version."""

    registry: Registry
    request: Request
    target: Target
    ctx: Context
    operation: str
    obj: JsonObject | None
    old: JsonObject | None
    places: list[Place]
    options: Callable[[], JsonObject] | None = None
    named: bool = True
    authorizer: Authorizer | None = None
    _versioned: dict[tuple[int, str], JsonObject] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in the request; "" if the server has to generate one."""
        if self.operation == "CREATE" and not self.target.subresource and self.obj is not None:
            meta = self.obj["metadata"]
            # A generated name is not part of the request.
            if meta.get("generateName") and not self.target.name:
                return ""
            return str(meta.get("name") or "")
        return self.target.name if self.named else ""

    @property
    def namespace(self) -> str:
        """The request's namespace. For a request about a namespace, that namespace."""
        if self.is_namespace:
            return self.target.name or self.name
        return self.target.namespace

    @property
    def is_namespace(self) -> bool:
        """True if the request is about a namespace."""
        return (self.target.kind.group, self.target.kind.plural) == ("", "namespaces")

    def convert(self, obj: JsonObject | None, place: Place) -> JsonObject | None:
        """Return the object in the place's version."""
        if obj is None or self.brings_other_kind:
            return obj
        key = (id(obj), place.kind[1])
        found = self._versioned.get(key)
        if found is None:
            kind = self.target.kind
            found = self._versioned[key] = convert(kind, copy_object(obj), place.kind[1])
            found["apiVersion"] = "/".join(part for part in place.kind[:2] if part)
            found["kind"] = place.kind[2]
            # Remove empty fields, which the encoded object would not have.
            strip(object_type(kind, place.kind[1]), found)
        return found

    @property
    def brings_other_kind(self) -> bool:
        """True if the request's object is not of the resource's kind: it is, for example, a Binding or a Scale."""
        return self.places[0].kind[2] != self.target.kind.kind

    def take(self, changed: JsonObject, place: Place) -> None:
        """Replace the request's object by ``changed``, which is in the version of ``place``."""
        assert self.obj is not None
        made = changed if self.brings_other_kind else to_storage(self.target.kind, changed, place.kind[1])
        # The caller that prepares the object keeps a reference to its metadata.
        meta = self.obj.get("metadata")
        if meta is not None:
            meta.clear()
            meta.update(made["metadata"])
            made["metadata"] = meta
        self.obj.clear()
        self.obj.update(made)
        self._versioned.clear()

    def describe(self, place: Place) -> JsonObject:
        """Return the request as an AdmissionRequest, without its uid and objects."""
        mine, part = self.places[0], self.target.subresource
        user = self.request.user
        info = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        members = {
            "kind": _name_parts(place.kind, "kind"),
            "resource": _name_parts(place[:3], "resource"),
            "subResource": part,
            "requestKind": _name_parts(mine.kind, "kind"),
            "requestResource": _name_parts(mine[:3], "resource"),
            "requestSubResource": part,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {key: value for key, value in info.items() if value},
            "dryRun": self.ctx.dry_run,
            "options": self.options() if self.options is not None else self._query_options(),
        }
        return {key: value for key, value in members.items() if value != ""}

    def _query_options(self) -> JsonObject | None:
        if self.operation == "CONNECT":
            return None
        # A patch is described with UpdateOptions or CreateOptions, according to its result.
        query = self.request.query
        options: JsonObject = {"kind": _OPTIONS.get(self.operation, ""), "apiVersion": "meta.k8s.io/v1"}
        if self.ctx.dry_run:
            options["dryRun"] = ["All"]
        for name in ("fieldManager", "fieldValidation"):
            if query.get(name):
                options[name] = query[name]
        return options

    def create_refusal(self, why: str) -> StatusError:
        """Return a 403 error like admission.NewForbidden."""
        kind = self.target.kind
        meta = (self.obj or {}).get("metadata") or {}
        name = self.name or meta.get("name") or meta.get("generateName") or "Unknown"
        return forbidden_error(GroupResource(kind.group, kind.plural), name, why)

    def annotate(self, key: str, value: str, *, detailed: bool = False) -> None:
        """Add an annotation to the request's audit events.

        A `detailed` annotation is only logged at level Request or above.
        """
        if self.request.audit is not None:
            self.request.audit.annotate(key, value, detailed=detailed)

    def warn(self, texts: Iterable[str]) -> None:
        """Add warnings to the response."""
        self.request.warn(texts)


def _name_parts(parts: tuple[str, ...], last: str) -> JsonObject:
    group, version, name = parts
    return {"group": group, "version": version, last: name}
