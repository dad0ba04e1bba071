"""From a path and a method to what is to be done: the registry's kinds are the routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dra_apiserver.errors import method_not_allowed, no_such_resource, not_found
from dra_apiserver.handlers import components, logs, read, reviews, scales, streaming, subresources, write
from dra_apiserver.handlers import delete as deletion
from dra_apiserver.handlers.api import Api, Target
from dra_apiserver.http import Request
from dra_apiserver.registry import Registry

Handler = Callable[[Api, Request, Target], Awaitable[None]]

_NAMESPACE_PARTS = frozenset({"status", "finalize"})

_COMPONENTS = ("", "componentstatuses")

_OBJECT: dict[str, tuple[str, Handler]] = {
    "GET": ("get", read.get),
    "PUT": ("update", write.update),
    "PATCH": ("patch", write.patch),
    "DELETE": ("delete", deletion.delete),
}
_COLLECTION: dict[str, tuple[str, Handler]] = {
    "GET": ("list", read.list_objects),
    "POST": ("create", write.create),
    "DELETE": ("deletecollection", deletion.delete_collection),
}
_SCALE: dict[str, tuple[str, Handler]] = {
    "GET": ("get", scales.get_scale),
    "PUT": ("update", scales.put_scale),
    "PATCH": ("patch", scales.put_scale),
}
_STREAM: dict[str, tuple[str, Handler]] = {
    "GET": ("get", streaming.stream),
    "POST": ("create", streaming.stream),
}
_SPECIAL: dict[str, dict[str, tuple[str, Handler]]] = {
    "scale": _SCALE,
    "binding": {"POST": ("create", subresources.bind)},
    "eviction": {"POST": ("create", subresources.evict)},
    "token": {"POST": ("create", reviews.token)},
    "log": {"GET": ("get", logs.logs)},
    "exec": _STREAM,
    "attach": _STREAM,
}


class NotResource(Exception):
    """The path is none of the resource API's."""


def resolve(registry: Registry, method: str, path: str, watching: bool) -> tuple[str, Handler, Target]:
    """The verb, the handler and the target of a request.

    Raises:
        NotResource: the path belongs to no served group's resources.
        StatusError: 404, no such resource; 405, it doesn't know this method.
    """
    parts = path.split("/")
    # parts[0] is empty: paths start with a slash.
    if parts[-1] == "":
        parts.pop()
    if len(parts) >= 4 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) >= 5 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        raise NotResource
    old_watch = rest[0] == "watch" and method == "GET" and len(rest) > 1
    if old_watch:
        watching = True
        rest = rest[1:]
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (group == "" and len(rest) == 3 and rest[2] in _NAMESPACE_PARTS)
    ):
        namespace, rest = rest[1], rest[2:]
    info = registry.resource(group, version, rest[0])
    if info is None:
        if group and not registry.versions(group):
            raise NotResource
        raise no_such_resource()
    if len(rest) > 3 or (namespace and not info.namespaced):
        raise no_such_resource()
    target = Target(info, version, namespace)
    if len(rest) == 1:
        if method == "POST" and not info.stored:
            if rest[0] == "bindings":
                return "create", subresources.bind, target
            return "create", reviews.review, target
        found = _COLLECTION.get(method)
        if found is None or found[0] not in info.verbs:
            raise method_not_allowed()
        if info.namespaced and not namespace and found[0] in {"create", "deletecollection"}:
            raise method_not_allowed()
        if (group, rest[0]) == _COMPONENTS:
            return found[0], components.list_components, target
        if found[0] == "list" and watching:
            return "watch", read.watch, target
        return found[0], found[1], target
    target.name = rest[1]
    if info.namespaced and not namespace:
        raise no_such_resource()
    if len(rest) == 2 and old_watch:
        if "watch" not in info.verbs:
            raise no_such_resource()
        return "watch", read.watch, target
    if len(rest) == 2:
        found = _OBJECT.get(method)
        if found is None or found[0] not in info.verbs:
            raise method_not_allowed()
        if (group, rest[0]) == _COMPONENTS:
            return found[0], components.get_component, target
        return found[0], found[1], target
    name = rest[2]
    subresource = info.subresources_in(version).get(name)
    if subresource is None and info.custom is not None:
        raise not_found(target.qualified, target.name)
    if subresource is None:
        raise no_such_resource()
    target.subresource = name
    found = _SPECIAL[name].get(method) if name in _SPECIAL else _OBJECT.get(method)
    if found is None or found[0] not in subresource.verbs:
        raise method_not_allowed()
    return found[0], found[1], target
