"""The paths of OpenAPI documents, in version 3 form."""

from collections.abc import Iterator, Mapping

from dra_shared.jsontypes import JsonObject

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.serving import Subresource
from dra_apiserver.schema.packages import package_name

REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_JSON = "application/json"
_STRATEGIC = "application/strategic-merge-patch+json"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    _STRATEGIC,
)
_BOOLEAN = (
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "force",
    "follow",
    "previous",
    "timestamps",
    "orphanDependents",
)
_INTEGER = ("limit", "timeoutSeconds", "gracePeriodSeconds", "sinceSeconds", "tailLines", "limitBytes")
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "list": _LIST,
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, "force"),
    "delete": _DELETE,
    "deletecollection": (*_DELETE, "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion"),
    "get": (),
}
_METHODS = {"get": "get", "update": "put", "patch": "patch", "create": "post", "delete": "delete"}


def base_path(group: str, version: str) -> str:
    """Return the path of a group version."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def definition_of(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's schema."""
    return f"{package_name(group, version)}.{kind}"


def schema_name(info: Kind, version: str) -> str:
    """Return the name of a served kind's schema. That of a custom resource is derived from its group."""
    if not info.unstructured:
        return definition_of(info.group, version, info.kind)
    return f"{'.'.join(reversed(info.group.split('.')))}.{version}.{info.kind}"


def kind_paths(info: Kind, version: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the paths of one kind and its subresources."""
    base = base_path(info.group, version)
    name = schema_name(info, version)
    scoped = f"{base}/namespaces/{{namespace}}/{info.plural}" if info.namespaced else f"{base}/{info.plural}"
    gvk = {"group": info.group, "kind": info.kind, "version": version}
    collection: JsonObject = {}
    if "list" in info.verbs:
        collection["get"] = _operation("list", gvk, f"{name}List")
    if "create" in info.verbs:
        collection["post"] = _operation("post", gvk, name, name)
    if "deletecollection" in info.verbs:
        collection["delete"] = _operation("deletecollection", gvk, f"{META}.Status", f"{META}.DeleteOptions")
    if info.namespaced and "list" in info.verbs:
        yield f"{base}/{info.plural}", {"get": _operation("list", gvk, f"{name}List"), "parameters": []}
    yield scoped, collection | {"parameters": _path_parameters(info, named=False)}
    single = {
        _METHODS[verb]: _single(info, verb, gvk, name)
        for verb in ("get", "update", "patch", "delete")
        if verb in info.verbs
    }
    if single:
        yield f"{scoped}/{{name}}", single | {"parameters": _path_parameters(info, named=True)}
    for sub in info.subresources.values():
        yield f"{scoped}/{{name}}/{sub.name}", _sub_path(info, version, sub)


def _single(info: Kind, verb: str, gvk: JsonObject, name: str) -> JsonObject:
    method = _METHODS[verb]
    if method == "delete":
        return _operation("delete", gvk, f"{META}.Status", f"{META}.DeleteOptions")
    if method == "patch":
        return _operation("patch", gvk, name, f"{META}.Patch", _patch_types(info))
    return _operation(method, gvk, name, name if method == "put" else None)


def _sub_path(info: Kind, version: str, sub: Subresource) -> JsonObject:
    sub_version = version if sub.group == info.group else sub.version
    gvk = {"group": sub.group, "kind": sub.kind, "version": sub_version}
    name = definition_of(sub.group, sub_version, sub.kind)
    if sub.kind == info.kind:
        name = schema_name(info, version)
    made: JsonObject = {}
    for verb in sorted(sub.verbs):
        method = _METHODS[verb]
        if sub.kind.endswith("Options"):
            made[method] = {"x-kubernetes-action": "connect", "x-kubernetes-group-version-kind": gvk, "responses": {
                "200": {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}}}}  # fmt: skip
        elif sub.name == "log":
            made[method] = _operation("get", gvk, None)
        elif method == "post":
            made[method] = _operation("post", gvk, name, name)
        else:
            made[method] = _single(info, verb, gvk, name)
    return made | {"parameters": _path_parameters(info, named=True)}


def _patch_types(info: Kind) -> tuple[str, ...]:
    # kubectl sends a strategic merge patch if the document lists it, so custom resources must not.
    return _PATCHES if info.types.strategic_merge else tuple(one for one in _PATCHES if one != _STRATEGIC)


def _operation(
    action: str,
    gvk: JsonObject,
    answer: str | None,
    body: str | None = None,
    types: tuple[str, ...] = ("*/*",),
) -> JsonObject:
    content: JsonObject = {"text/plain": {"schema": {"type": "string"}}}
    if answer is not None:
        content = {_JSON: {"schema": {"$ref": REF + answer}}}
    made: JsonObject = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
        "parameters": [_query(name) for name in sorted(_PARAMETERS[action])],
        "responses": {"200": {"description": "OK", "content": content}},
    }
    if action == "post":
        made["responses"]["201"] = {"description": "Created", "content": content}
    if body is not None:
        made["requestBody"] = {"content": {name: {"schema": {"$ref": REF + body}} for name in types}}
    return made


def _query(name: str) -> JsonObject:
    kind = "boolean" if name in _BOOLEAN else "integer" if name in _INTEGER else "string"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _path_parameters(info: Kind, *, named: bool) -> list[JsonObject]:
    names = (["name"] if named else []) + (["namespace"] if info.namespaced else [])
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in names
    ]
