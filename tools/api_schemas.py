"""Writes the schema files of shared/dra_shared/api/schema from recorded OpenAPI documents and the Go API
types.

    python -m tools.api_schemas OPENAPI_DIR MIRROR_DIR [REVISION]

OPENAPI_DIR holds ``<group>__<version>.json.gz`` with the ``schemas`` of a Kubernetes API server's
/openapi/v3. MIRROR_DIR holds bare git repositories ``kubernetes+api/repo`` and so on, read at REVISION. A
package's file has its types as OpenAPI schemas; every property also has ``x-go: [type, flags]``: the Go type
as error messages print it, and flags ``*`` for a pointer, ``e`` for omitempty, ``z`` for omitzero. Packages
that OPENAPI_DIR lacks are derived from the Go types alone. Deprecated versions go into kinds.json.
"""

import contextlib
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.go_types import GoField, GoPackage, GoType, parse, read_git

TARGET = Path(__file__).resolve().parent.parent / "shared/dra_shared/api/schema"
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
REFS = {
    f"{META}.Time": "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    f"{META}.MicroTime": "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    f"{META}.FieldsV1": "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "io.k8s.apimachinery.pkg.runtime.RawExtension",
}
SIMPLE: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int32"},
    "int32": {"type": "integer", "format": "int32"},
    "uint32": {"type": "integer", "format": "int64"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "[]byte": {"type": "string", "format": "byte"},
}
# Go package -> (repository, folder in it, files). k8s.io/api packages are found by their name.
OTHER_PACKAGES = {
    META: ("kubernetes+apimachinery", "pkg/apis/meta/v1", ["types.go", "group_version.go"]),
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": (
        "kubernetes+apiextensions-apiserver",
        "pkg/apis/apiextensions/v1",
        ["types.go", "types_jsonschema.go"],
    ),
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1": (
        "kubernetes+kube-aggregator",
        "pkg/apis/apiregistration/v1",
        ["types.go"],
    ),
}
API_FOLDERS = {
    "": "core",
    "internal.apiserver.k8s.io": "apiserverinternal",
    "rbac.authorization.k8s.io": "rbac",
    "flowcontrol.apiserver.k8s.io": "flowcontrol",
}
# Types from other packages, by the name a property's Go type gives them.
FOREIGN = {
    "k8s.io/apimachinery/pkg/types": {
        "UID": "string",
        "NodeName": "string",
        "PatchType": "string",
    },
    META: {"Duration": "string"},
}


class Source:
    """The Go packages, parsed when first needed."""

    def __init__(self, mirror: Path, revision: str) -> None:
        self._mirror = mirror
        self._revision = revision
        self._packages: dict[str, GoPackage] = {}

    def read(self, repository: str, path: str) -> str:
        return read_git(self._mirror / repository / "repo", self._revision, path)

    def package(self, path: str) -> GoPackage:
        if path not in self._packages:
            if path in OTHER_PACKAGES:
                repository, folder, files = OTHER_PACKAGES[path]
            else:
                repository, folder, files = "kubernetes+api", path.removeprefix("k8s.io/api/"), ["types.go"]
            merged = GoPackage(path)
            for name in files:
                one = parse(path, self.read(repository, f"{folder}/{name}"))
                merged.types |= one.types
                merged.imports |= one.imports
                merged.named |= one.named
                for type_name, values in one.constants.items():
                    merged.constants.setdefault(type_name, []).extend(values)
                for type_name, others in one.renamed.items():
                    named = [self.package(one.imports[alias]).named[name] for alias, name in others
                             if one.imports.get(alias, "").startswith("k8s.io/api/")]  # fmt: skip
                    merged.constants.setdefault(type_name, []).extend(named)
            self._packages[path] = merged
        return self._packages[path]


def definition_name(path: str) -> str:
    domain, _, rest = path.partition("/")
    return ".".join(reversed(domain.split("."))) + "." + rest.replace("/", ".")


def resolve(source: Source, package: GoPackage, name: str) -> tuple[str, str, GoType | None]:
    """Import path, name and (where it is one of ours) the type that ``name`` means in ``package``."""
    qualifier, dot, rest = name.rpartition(".")
    path = package.imports.get(qualifier, qualifier) if dot else package.path
    known = path == package.path or path.startswith("k8s.io/api/") or path in OTHER_PACKAGES
    return path, rest, source.package(path).types.get(rest) if known else None


def printed(source: Source, package: GoPackage, text: str) -> str:
    """A Go type as ``reflect.Type.String`` prints it."""
    if text.startswith("*"):
        return "*" + printed(source, package, text[1:])
    if text == "[]byte":
        return "[]uint8"
    if text.startswith("[]"):
        return "[]" + printed(source, package, text[2:])
    match = re.match(r"map\[([\w.]+)\](.+)", text)
    if match:
        return f"map[{printed(source, package, match.group(1))}]{printed(source, package, match.group(2))}"
    if text in SIMPLE or text in ("byte", "interface{}"):
        return text
    path, name, _ = resolve(source, package, text)
    return f"{path.rsplit('/', 1)[-1]}.{name}"


def type_schema(source: Source, package: GoPackage, text: str) -> dict[str, Any]:
    """The schema of a Go type expression."""
    if text.startswith("*"):
        return type_schema(source, package, text[1:])
    if text in SIMPLE:
        return dict(SIMPLE[text])
    if text.startswith("[]"):
        return {"items": type_schema(source, package, text[2:]), "type": "array"}
    match = re.match(r"map\[[\w.]+\](.+)", text)
    if match:
        return {"additionalProperties": type_schema(source, package, match.group(1)), "type": "object"}
    path, name, found = resolve(source, package, text)
    if f"{path}.{name}" in REFS:
        return {"$ref": "#/components/schemas/" + REFS[f"{path}.{name}"]}
    if name in FOREIGN.get(path, {}):
        return dict(SIMPLE[FOREIGN[path][name]])
    if found is None:
        raise SystemExit(f"{package.path}: unknown type {text}")
    if found.underlying:
        return type_schema(source, source.package(path), found.underlying)
    return {"$ref": f"#/components/schemas/{definition_name(path)}.{name}"}


def field_schema(source: Source, package: GoPackage, found: GoField) -> dict[str, Any]:
    schema = type_schema(source, package, found.type)
    special = "$ref" in schema and schema["$ref"].rsplit(".", 1)[-1] in {n.rsplit(".", 1)[-1] for n in REFS}
    if "$ref" in schema:
        schema = {"allOf": [schema]}
        if not found.type.startswith("*") and not special:
            schema["default"] = {}
    elif not (found.omitempty or found.omitzero or found.type.startswith("*")):
        default = {"string": "", "integer": 0, "boolean": False}.get(str(schema.get("type")))
        if default is not None and schema.get("format") != "byte":
            schema["default"] = default
    stated = found.markers.get("default", [""])[0]
    if stated and not stated.startswith("ref("):
        schema["default"] = json.loads(stated)
    for marker, key in (("listType", "x-kubernetes-list-type"), ("mapType", "x-kubernetes-map-type")):
        if marker in found.markers:
            schema[key] = found.markers[marker][0]
    if "structType" in found.markers:
        schema["x-kubernetes-map-type"] = found.markers["structType"][0]
    if "listMapKey" in found.markers:
        schema["x-kubernetes-list-map-keys"] = found.markers["listMapKey"]
    if "patchMergeKey" in found.tags:
        schema["x-kubernetes-patch-merge-key"] = found.tags["patchMergeKey"]
    if "patchStrategy" in found.tags:
        schema["x-kubernetes-patch-strategy"] = found.tags["patchStrategy"]
    return schema


def required(found: GoField) -> bool:
    if {"required", "k8s:required"} & found.markers.keys():
        return True
    return not (found.omitempty or found.omitzero or {"optional", "k8s:optional"} & found.markers.keys())


def all_fields(source: Source, package: GoPackage, found: GoType) -> list[tuple[GoPackage, GoField]]:
    """The JSON fields of a struct in order, those of inlined structs in their place."""
    fields: list[tuple[GoPackage, GoField]] = []
    for one in found.fields:
        if one.json:
            fields.append((package, one))
            continue
        path, _, inner = resolve(source, package, one.type)
        while inner is not None and inner.underlying:
            path, _, inner = resolve(source, source.package(path), inner.underlying)
        if inner is not None:
            fields += all_fields(source, source.package(path), inner)
        elif one.type.endswith("TypeMeta"):
            for name in ("kind", "apiVersion"):
                fields.append((package, GoField(name, "string", True, False, {}, {"optional": [""]})))
    return fields


def struct_schema(source: Source, package: GoPackage, found: GoType) -> dict[str, Any]:
    """The OpenAPI schema of a struct from its Go type alone."""
    fields = all_fields(source, package, found)
    schema: dict[str, Any] = {
        "properties": {one.json: field_schema(source, owner, one) for owner, one in fields},
        "type": "object",
    }
    needed = [one.json for _, one in fields if required(one)]
    if needed:
        schema["required"] = needed
    for marker in ("structType", "mapType"):
        if marker in found.markers:
            schema["x-kubernetes-map-type"] = found.markers[marker][0]
    return schema


def annotate(source: Source, package: GoPackage, found: GoType, schema: dict[str, Any]) -> None:
    """Adds ``x-go`` to the properties of ``schema``."""
    for owner, one in all_fields(source, package, found):
        target = schema.get("properties", {}).get(one.json)
        if target is None:
            continue
        pointer = one.type.startswith("*")
        flags = ("*" if pointer else "") + ("e" if one.omitempty else "") + ("z" if one.omitzero else "")
        target["x-go"] = [printed(source, owner, one.type.removeprefix("*")), flags]
        enumerate_values(source, owner, one.type.removeprefix("*"), target)


def enumerate_values(source: Source, owner: GoPackage, type_name: str, target: dict[str, Any]) -> None:
    """Adds the values of an enumeration to a property of that type, or to the items of a list of it."""
    if type_name.startswith("[]") and "items" in target:
        target, type_name = target["items"], type_name.removeprefix("[]")
    alias, dot, name = type_name.rpartition(".")
    path = owner.imports.get(alias, owner.path) if dot else owner.path
    if not path.startswith("k8s.io/api/") and path not in OTHER_PACKAGES:
        return
    values = source.package(path).enumeration(name)
    if values and target.get("type") == "string":
        target["enum"] = values


def go_package(definition: str) -> tuple[str, str] | None:
    """The Go import path and type name of a definition such as ``io.k8s.api.core.v1.Pod``."""
    prefix, _, name = definition.rpartition(".")
    if prefix.startswith("io.k8s.api."):
        return "k8s.io/api/" + prefix.removeprefix("io.k8s.api.").replace(".", "/"), name
    for path in OTHER_PACKAGES:
        if definition_name(path) == prefix:
            return path, name
    return None


def with_gvk(schema: dict[str, Any], group: str, version: str, kind: str) -> dict[str, Any]:
    return schema | {"x-kubernetes-group-version-kind": [{"group": group, "kind": kind, "version": version}]}


def derive(
    source: Source, path: str, group: str, version: str, kinds: list[str]
) -> dict[str, dict[str, Any]]:
    """The definitions of a group version that no recorded document has, reachable from its kinds."""
    made: dict[str, dict[str, Any]] = {}
    package = source.package(path)
    pending = [name for kind in kinds for name in (kind, kind + "List") if name in package.types]
    while pending:
        name = pending.pop()
        full = f"{definition_name(path)}.{name}"
        if full in made:
            continue
        schema = struct_schema(source, package, package.types[name])
        if name.removesuffix("List") in kinds:
            schema = with_gvk(schema, group, version, name)
        made[full] = schema
        pending += re.findall(rf"{re.escape(definition_name(path))}\.(\w+)\"", json.dumps(schema))
    return made


def lifecycle(text: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """For each kind of a package its deprecation, removal and replacement."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    pattern = r"func \(in \*(\w+)\) APILifecycle(\w+)\(\) [^{\n]*\{\s*return ([^\n]*)"
    for kind, event, value in re.findall(pattern, text):
        numbers = re.findall(r'"([^"]*)"', value) or re.findall(r"\d+", value)
        found.setdefault(kind, {})[event] = tuple(numbers)
    return found


def deprecations(source: Source, document: dict[str, Any], minor: int) -> None:
    """Adds to each kind the versions that clients are warned of."""
    for entry in document["kinds"]:
        entry.pop("deprecated", None)
        for version in entry["versions"]:
            folder = API_FOLDERS.get(entry["group"], entry["group"].split(".")[0])
            text = ""
            # The written ones come last: they have the last word.
            for file in ("zz_generated.prerelease-lifecycle.go", "lifecycle.go"):
                with contextlib.suppress(subprocess.CalledProcessError):
                    text += source.read("kubernetes+api", f"{folder}/{version}/{file}")
            events = lifecycle(text).get(entry["kind"], {})
            since = events.get("Deprecated")
            if since is None or int(since[1]) > minor:
                continue
            name = f"{entry['group']}/{version}".lstrip("/")
            warning = f"{name} {entry['kind']} is deprecated in v{since[0]}.{since[1]}+"
            if "Removed" in events:
                warning += f", unavailable in v{'.'.join(events['Removed'])}+"
            if "Replacement" in events:
                group, replacement, kind = events["Replacement"]
                warning += f"; use {f'{group}/{replacement}'.lstrip('/')} {kind}"
            entry.setdefault("deprecated", {})[version] = warning


PROTOBUF_SPECIAL = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "micro",
    f"{META}.FieldsV1": "raw",
    f"{META}.Duration": "duration",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "either",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "raw",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON": "raw",
}
PROTOBUF_SIMPLE = {"string": "string", "bool": "bool", "float64": "double", "[]byte": "bytes"}


def wire_type(source: Source, package: GoPackage, text: str) -> Any:
    """How a Go type is laid out in protobuf: a word, a type's full name, ["list", item] or ["map", value]."""
    text = text.removeprefix("*")
    if text in PROTOBUF_SIMPLE:
        return PROTOBUF_SIMPLE[text]
    if text in SIMPLE:
        return "int"
    if text.startswith("[]"):
        return ["list", wire_type(source, package, text[2:])]
    match = re.match(r"map\[[\w.]+\](.+)", text)
    if match:
        return ["map", wire_type(source, package, match.group(1))]
    path, name, found = resolve(source, package, text)
    full = f"{path}.{name}"
    if full in PROTOBUF_SPECIAL:
        return PROTOBUF_SPECIAL[full]
    if name in FOREIGN.get(path, {}):
        return "string"
    if found is None:
        return "string"
    if name in ("ExtraValue", "Verbs"):
        return "strings"
    if found.underlying:
        return wire_type(source, source.package(path), found.underlying)
    return f"{definition_name(path)}.{name}"


def layouts(source: Source, package: GoPackage) -> dict[str, Any]:
    """The protobuf messages of a package: for each field number the JSON name (empty if inlined) and the type."""
    made: dict[str, Any] = {}
    for name, found in package.types.items():
        fields = {}
        for one in found.fields:
            tag = one.tags.get("protobuf", "").split(",")
            if len(tag) > 1:
                fields[tag[1]] = [one.json, wire_type(source, package, one.type)]
        if fields:
            made[name] = fields
    return made


def write_protobuf(source: Source, packages: list[str]) -> int:
    """Writes the layouts of all packages, which only requests in protobuf need."""
    document: dict[str, Any] = {}
    for name in packages:
        found = go_package(f"{name}.Any")
        if found is not None:
            document[name] = layouts(source, source.package(found[0]))
    data = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0)
    (TARGET / "protobuf.json.gz").write_bytes(data)
    return len(data)


def main() -> None:
    openapi, mirror = Path(sys.argv[1]), Path(sys.argv[2])
    revision = sys.argv[3] if len(sys.argv) > 3 else "v0.36.2"
    source = Source(mirror, revision)
    definitions: dict[str, dict[str, Any]] = {}
    recorded = set()
    for file in sorted(openapi.glob("*.json.gz")):
        recorded.add(file.name.removesuffix(".json.gz"))
        definitions |= json.loads(gzip.decompress(file.read_bytes()))["schemas"]
    for name, schema in definitions.items():
        schema.pop("description", None)
        if schema.get("x-kubernetes-group-version-kind", [{}])[0].get("kind") in (
            "DeleteOptions",
            "WatchEvent",
        ):
            schema["x-kubernetes-group-version-kind"] = [
                {"group": "", "kind": name.rsplit(".", 1)[-1], "version": "v1"}
            ]
    document = json.loads((TARGET / "kinds.json").read_text())
    wanted: dict[tuple[str, str], list[str]] = {}
    for entry in document["kinds"]:
        for version in entry["versions"]:
            wanted.setdefault((entry["group"], version), []).append(entry["kind"])
    for (group, version), kinds in wanted.items():
        if f"{group or 'core'}__{version}" in recorded:
            continue
        folder = API_FOLDERS.get(group, group.split(".")[0])
        path = f"k8s.io/api/{folder}/{version}"
        if group == "apiregistration.k8s.io":
            path = "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
        derived = derive(source, path, group, version, kinds)
        definitions |= {name: schema for name, schema in derived.items() if name not in definitions}
    missing = set(re.findall(r"#/components/schemas/([\w.-]+)", json.dumps(definitions))) - definitions.keys()
    for name in sorted(missing):
        target = go_package(name)
        if target is None:
            raise SystemExit(f"nothing defines {name}")
        package = source.package(target[0])
        definitions[name] = struct_schema(source, package, package.types[target[1]])
    for name, schema in definitions.items():
        target = go_package(name)
        if target is not None and target[1] in source.package(target[0]).types:
            annotate(source, source.package(target[0]), source.package(target[0]).types[target[1]], schema)
    packages: dict[str, dict[str, Any]] = {}
    for name in sorted(definitions):
        packages.setdefault(name.rpartition(".")[0], {})[name.rpartition(".")[2]] = definitions[name]
    for file in TARGET.glob("*.json.gz"):
        file.unlink()
    total = 0
    for package_name, types in packages.items():
        data = gzip.compress(json.dumps(types, separators=(",", ":"), sort_keys=False).encode(), 9, mtime=0)
        (TARGET / f"{package_name}.json.gz").write_bytes(data)
        total += len(data)
    total += write_protobuf(source, sorted(packages))
    deprecations(source, document, int(revision.split(".")[1]))
    lines = ",\n".join("  " + json.dumps(entry) for entry in document["kinds"])
    groups = json.dumps(document["groups"])
    (TARGET / "kinds.json").write_text('{"groups": ' + groups + ',\n "kinds": [\n' + lines + "\n]}\n")
    print(f"{len(definitions)} types in {len(packages)} packages, {total} bytes")


if __name__ == "__main__":
    main()
