"""Find the handler of a path and a method: the registry's kinds are the routes.

A kind's own handlers (`Api.routes`) take precedence over the usual ones below.
Mirrors apiserver's `pkg/endpoints/installer.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_apiserver.api import USUAL_ROUTES, Handler, Route, Routes
from dra_apiserver.errors import (
    bad_request,
    method_not_allowed,
    method_not_supported,
    no_such_resource,
    not_found,
)
from dra_apiserver.handlers import create, get, patch, scale, update
from dra_apiserver.handlers import delete as deletion
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.registry import Registry
from dra_apiserver.storage import Resource
from dra_apiserver.target import Target

# Subresources of a namespace. Their paths look like that of a resource in the namespace.
_NAMESPACE_PARTS = frozenset({"status", "finalize"})

_OBJECT: Mapping[str, Route] = {
    "GET": ("get", get.get),
    "PUT": ("update", update.update),
    "PATCH": ("patch", patch.patch),
    "DELETE": ("delete", deletion.delete),
}
_COLLECTION: Mapping[str, Route] = {
    "GET": ("list", get.list_objects),
    "POST": ("create", create.create),
    "DELETE": ("deletecollection", deletion.delete_collection),
}
_SCALE: Mapping[str, Route] = {
    "GET": ("get", scale.get_scale),
    "PUT": ("update", scale.put_scale),
    "PATCH": ("patch", scale.put_scale),
}
_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NOT_OF_PARTS = frozenset({"", "create", "delete"})
# Verbs that a namespaced resource only supports within one namespace.
_OF_ONE_NAMESPACE = frozenset({"create", "deletecollection"})


class NotResource(Exception):
    """The path is not a path of the resource API."""


def resolve(
    registry: Registry, routes: Mapping[Resource, Routes], method: str, path: str, watching: bool
) -> tuple[str, Handler, Target]:
    """Return the verb, the handler and the target of a request.

    `routes` has the kinds with handlers of their own.

    Raises:
        NotResource: the path belongs to no resource of a served built-in group.
        StatusError: 404, the resource does not exist; 405, it does not support the method; 400, the name is
            missing.
    """
    group, version, namespace, rest, watch = _split(method, path)
    kind = registry.resource(group, version, rest[0])
    if kind is None:
        if group and registry.is_custom(group):
            raise NotResource
        raise no_such_resource()
    own = routes.get((kind.group, kind.plural), USUAL_ROUTES)
    if len(rest) > 3 and rest[2] == "proxy" and "proxy" in kind.subresources:
        # The remaining path is the path on the proxied server.
        rest = rest[:3]
    if kind.types.names_itself:
        if len(rest) > 3 or (namespace and not kind.namespaced):
            raise NotResource
        return _resolve_custom(own, method, Target(kind, version, namespace, *rest[1:]), watching or watch)
    if len(rest) > 3 or (namespace and not kind.namespaced):
        raise no_such_resource()
    target = Target(kind, version, namespace, *rest[1:])
    if len(rest) == 1:
        return _of_collection(own, method, target, watching or watch)
    if kind.namespaced and not namespace:
        raise no_such_resource()
    if len(rest) == 2:
        return _of_object(own, method, target, watch)
    if watch:
        raise no_such_resource()
    return _of_subresource(own, method, target)


def _split(method: str, path: str) -> tuple[str, str, str, list[str], bool]:
    """Split a path into group, version, namespace and the parts from the resource on, and report an old `/watch/`.

    Raises:
        NotResource: it is not a resource's path.
    """
    # The first part is empty, because paths start with a slash.
    parts = path.removesuffix("/").split("/")
    if len(parts) >= 4 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) >= 5 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        raise NotResource
    watch = rest[0] == "watch" and method == "GET" and len(rest) > 1
    if watch:
        rest = rest[1:]
    part_of_namespace = group == "" and len(rest) == 3 and rest[2] in _NAMESPACE_PARTS
    if rest[0] == "namespaces" and len(rest) > 2 and not part_of_namespace:
        return group, version, rest[1], rest[2:], watch
    return group, version, "", rest, watch


def _resolve_custom(own: Routes, method: str, target: Target, watching: bool) -> tuple[str, Handler, Target]:
    """Return the verb, handler and target for a custom resource.

    Upstream has no routes for these, and only looks at verbs.

    Mirrors ``ServeHTTP`` of apiextensions' `pkg/apiserver/customresource_handler.go`.
    """
    kind, verb = target.kind, _VERBS.get(method, "")
    reads_many = verb == "get" and (not target.name or watching)
    if kind.namespaced and not target.namespace and not reads_many:
        raise NotResource
    if target.subresource:
        routes = _subresource_routes(own, kind, target.subresource)
        if routes is None or target.subresource not in kind.subresources_in(target.version):
            raise not_found(target.qualified_resource, target.name)
        found = routes.get("GET" if method == "HEAD" else method)
        if found is None or verb in _NOT_OF_PARTS:
            raise method_not_supported(target.qualified_resource, verb)
        return *found, target
    if verb == "create":
        # As upstream, a name in the path is ignored here.
        return "create", create.create, target.with_name("")
    if reads_many:
        return ("watch", get.watch, target) if watching else ("list", get.list_objects, target)
    if verb == "delete" and not target.name:
        return "deletecollection", deletion.delete_collection, target
    if not verb:
        raise method_not_supported(target.qualified_resource, verb)
    if not target.name:
        raise bad_request("name must be provided")
    return *_OBJECT["GET" if method == "HEAD" else method], target


def _of_collection(own: Routes, method: str, target: Target, watching: bool) -> tuple[str, Handler, Target]:
    kind = target.kind
    if (route := own.collection.get(method)) is not None:
        return *route, target
    verb, handler = _COLLECTION.get(method, ("", create.create))
    if verb not in kind.verbs:
        raise method_not_allowed()
    if kind.namespaced and not target.namespace and verb in _OF_ONE_NAMESPACE:
        raise method_not_allowed()
    if verb == "list" and watching:
        return "watch", get.watch, target
    return verb, handler, target


def _of_object(own: Routes, method: str, target: Target, watch: bool) -> tuple[str, Handler, Target]:
    kind = target.kind
    if watch:
        if "watch" not in kind.verbs:
            raise no_such_resource()
        return "watch", get.watch, target
    if (route := own.object.get(method)) is not None:
        return *route, target
    verb, handler = _OBJECT.get(method, ("", get.get))
    if verb not in kind.verbs:
        raise method_not_allowed()
    return verb, handler, target


def _of_subresource(own: Routes, method: str, target: Target) -> tuple[str, Handler, Target]:
    kind, name = target.kind, target.subresource
    subresource = kind.subresources_in(target.version).get(name)
    if subresource is None and kind.unstructured:
        raise not_found(target.qualified_resource, target.name)
    routes = _subresource_routes(own, kind, name)
    if subresource is None or routes is None:
        raise no_such_resource()
    found = routes.get(method)
    if found is None or (found[0] and found[0] not in subresource.verbs):
        raise method_not_allowed()
    return *found, target


def _subresource_routes(own: Routes, kind: Kind, name: str) -> Mapping[str, Route] | None:
    """Return the routes of a subresource; None if discovery lists the subresource but it is not served."""
    if (routes := own.subresources.get(name)) is not None:
        return routes
    if name == "scale":
        return _SCALE
    return _OBJECT if name in kind.subresources and kind.subresources[name].kind == kind.kind else None
