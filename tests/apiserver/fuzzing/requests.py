"""Create random requests of all kinds and subresources, verbs, media types and options."""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import yaml
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.registry import Registry
from dra_apiserver.schema.types import definition, object_type
from dra_shared.jsontypes import JsonObject

from tests.apiserver.fuzzing.options import (
    ACCEPTS,
    BODIES,
    DELETE_OPTIONS,
    DRY_GROUPS,
    NAMESPACES,
    ODD_NAMES,
    ODD_TYPES,
    OPTIONS,
    PAGES,
    PATCHES,
    POINTERS,
    WRITES,
)
from tests.apiserver.fuzzing.values import EXAMPLES, NAMES, Values, as_json, deep, junk, places


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __str__(self) -> str:
        url = f"{self.path}?{self.query}" if self.query else self.path
        return f"{self.method} {url} {dict(self.headers)} {self.body[:2000]!r}"


class Requests:
    """Creates random requests. The same ``dice`` and registry give the same requests."""

    def __init__(self, registry: Registry, dice: random.Random) -> None:
        self._registry = registry
        self._dice = dice
        self._values = Values(dice)
        self._examples: dict[tuple[str, str], list[JsonObject]] = {}
        for example in EXAMPLES:
            self._examples.setdefault((example["apiVersion"], example["kind"]), []).append(example)

    def examples(self) -> list[Sent]:
        """Return requests that create objects named ``base``, which later requests find. Some objects are rejected."""
        return [self._example(info, version, "base") for info in self._registry for version in info.versions]

    def _example(self, info: Kind, version: str, name: str) -> Sent:
        known = self._examples.get((info.api_version(version), info.kind), [{}])
        obj = {
            "apiVersion": info.api_version(version),
            "kind": info.kind,
            **copy.deepcopy(self._dice.choice(known)),
        }
        obj["metadata"] = {
            **obj.get("metadata", {}),
            "name": name,
            "namespace": "default",
            "resourceVersion": "",
        }
        if not info.namespaced:
            del obj["metadata"]["namespace"]
        query = "dryRun=All" if info.group in DRY_GROUPS else ""
        headers = (("content-type", "application/json"),)
        return Sent("POST", self._path(info, version, "default"), query, headers, as_json(obj))

    def next(self) -> Sent:
        """Return another request."""
        dice = self._dice
        if dice.random() < 0.02:
            path, _, query = dice.choice(PAGES).partition("?")
            method = dice.choice(["GET", "GET", "POST", "DELETE", "HEAD", "OPTIONS"])
            return Sent(method, path, query or self._query({}), (("accept", self._accept()),), b"")
        info = dice.choice(list(self._registry))
        version = dice.choice(info.versions)
        if dice.random() < 0.08:
            return self._example(info, version, dice.choice(NAMES))
        ways: list[Callable[[Kind, str], Sent]] = [
            self._create,
            self._create,
            self._put,
            self._patch,
            self._patch,
            self._delete,
            self._read,
            self._below,
        ]
        return dice.choice(ways)(info, version)

    def _path(self, info: Kind, version: str, namespace: str = "") -> str:
        root = f"/apis/{info.group}/{version}" if info.group else f"/api/{version}"
        if info.namespaced:
            root += f"/namespaces/{namespace or self._dice.choice(NAMESPACES)}"
        return f"{root}/{info.plural}"

    def _accept(self) -> str:
        return self._dice.choice(ACCEPTS) if self._dice.random() < 0.2 else "application/json"

    def _name(self) -> str:
        return self._dice.choice(NAMES) if self._dice.random() < 0.95 else quote(self._dice.choice(ODD_NAMES))

    def _query(self, given: dict[str, str]) -> str:
        dice = self._dice
        options = dict(given)
        for _ in range(dice.choice([0, 0, 0, 1, 1, 2, 3])):
            name = dice.choice(list(OPTIONS))
            options.setdefault(name, dice.choice(OPTIONS[name]))
        if dice.random() < 0.01:
            return dice.choice(["&&&", "%", "%zz=%", "a;b", "=", "\x7f", "limit&limit"])
        return urlencode(options)

    def _create_request(
        self, method: str, path: str, content_type: str, body: bytes, info: Kind, **given: str
    ) -> Sent:
        if info.group in DRY_GROUPS:
            given["dryRun"] = "All"
        headers = [("accept", self._accept())]
        if content_type:
            headers.append(("content-type", content_type))
        return Sent(method, path, self._query(given), tuple(headers), body)

    def _object(self, info: Kind, version: str) -> JsonObject:
        """Return an object of the kind: an example with something odd in it, or a random one."""
        dice = self._dice
        name = info.api_version(version)
        known = self._examples.get((name, info.kind))
        if known and dice.random() < 0.6:
            made: Any = copy.deepcopy(dice.choice(known))
            del made["metadata"]["resourceVersion"]
            self._spoil(made)
        else:
            made = self._values.make(object_type(info, version))
        if not isinstance(made, dict):
            return {"apiVersion": name, "kind": info.kind, "metadata": made}
        made["apiVersion"], made["kind"] = name, info.kind
        if dice.random() < 0.01:
            made[dice.choice(["apiVersion", "kind"])] = junk(dice)
        return made

    def _spoil(self, obj: Any) -> None:
        dice = self._dice
        for _ in range(dice.choice([0, 1, 1, 2, 3])):
            found = places(obj)
            if not found:
                return
            container, key = dice.choice(found)
            if dice.random() < 0.2:
                del container[key]
            else:
                container[key] = junk(dice)

    def _set_name(self, obj: Any, name: str) -> Any:
        if not isinstance(obj, dict):
            return obj
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            if meta is not None and self._dice.random() < 0.3:
                return obj
            meta = obj["metadata"] = {}
        meta["name"] = name
        for member in ("namespace", "resourceVersion", "uid", "deletionTimestamp"):
            if self._dice.random() < 0.95:
                meta.pop(member, None)
        return obj

    def _encode(self, obj: Any, content_type: str) -> bytes:
        dice = self._dice
        if content_type == "application/vnd.kubernetes.protobuf":
            return self._protobuf(obj)
        text = yaml.safe_dump(obj, allow_unicode=True).encode() if "yaml" in content_type else as_json(obj)
        if dice.random() < 0.03:
            place = dice.randrange(len(text) + 1)
            text = (
                text[:place]
                + dice.choice([b"", b"\x00", b"\xff", b"[" * 2000, b'"', b"}", b'"a":1,'])
                + text[place:]
            )
        if dice.random() < 0.01:
            text = text[: dice.randrange(len(text) + 1)]
        return text

    def _protobuf(self, obj: Any) -> bytes:
        def part(number: int, data: bytes) -> bytes:
            return bytes([number << 3 | 2]) + _varint(len(data)) + data

        dice = self._dice
        meta = b""
        if (
            isinstance(obj, dict)
            and isinstance(obj.get("kind"), str)
            and isinstance(obj.get("apiVersion"), str)
        ):
            meta = part(1, obj["apiVersion"].encode()) + part(2, obj["kind"].encode())
        raw = part(1, part(1, dice.choice(NAMES).encode()) + dice.randbytes(dice.randrange(4)))
        for _ in range(dice.randrange(4)):
            raw += dice.choice(
                [dice.randbytes(dice.randrange(20)), part(dice.randrange(1, 15), dice.randbytes(3))]
            )
            if dice.random() < 0.1:
                raw = part(2, raw * 3)
        return b"k8s\x00" + part(1, meta) + part(2, raw)

    def _content_type(self) -> str:
        return self._dice.choice(WRITES) if self._dice.random() < 0.95 else self._dice.choice(ODD_TYPES)

    def _create(self, info: Kind, version: str) -> Sent:
        content_type = self._content_type()
        obj = self._set_name(self._object(info, version), self._dice.choice(NAMES))
        path = self._path(info, version)
        return self._create_request("POST", path, content_type, self._encode(obj, content_type), info)

    def _put(self, info: Kind, version: str) -> Sent:
        content_type, name = self._content_type(), self._name()
        obj = self._set_name(self._object(info, version), name)
        path = self._path(info, version) + f"/{name}" + self._dice.choice(["", "", "/status"])
        return self._create_request("PUT", path, content_type, self._encode(obj, content_type), info)

    def _patch(self, info: Kind, version: str) -> Sent:
        dice = self._dice
        way, name = dice.choice(list(PATCHES)), self._name()
        path = self._path(info, version) + f"/{name}" + dice.choice(["", "", "/status"])
        obj: Any = self._set_name(self._object(info, version), name)
        if way == "json":
            obj = [self._operation(obj) for _ in range(dice.choice([0, 1, 1, 2, 3]))]
        elif way == "strategic":
            for _ in range(dice.randrange(3)):
                container, key = dice.choice(places(obj) or [(obj, "x")])
                if isinstance(container, dict):
                    member = dice.choice(
                        ["$patch", "$retainKeys", f"$deleteFromPrimitiveList/{key}", "$setElementOrder/a"]
                    )
                    container[member] = dice.choice(["delete", "replace", "merge", junk(dice)])
        elif way == "merge" and dice.random() < 0.05:
            obj = dice.choice([junk(dice), deep(dice)])
        given = {"fieldManager": "me"} if way == "apply" and dice.random() < 0.9 else {}
        content_type = PATCHES[way] if dice.random() < 0.97 else self._content_type()
        body = as_json(obj) if way != "apply" or dice.random() < 0.5 else self._encode(obj, "yaml")
        return self._create_request("PATCH", path, content_type, body, info, **given)

    def _operation(self, obj: Any) -> Any:
        dice = self._dice

        def path() -> Any:
            steps = dice.choice(POINTERS)
            if isinstance(obj, dict) and dice.random() < 0.3:
                steps = f"/{dice.choice(list(obj))}/{dice.choice(['a', '0', '-', '-1', '~2'])}"
            return steps if dice.random() < 0.95 else junk(dice)

        if dice.random() < 0.03:
            return junk(dice)
        made: JsonObject = {
            "op": dice.choice(["add", "remove", "replace", "move", "copy", "test", "x"]),
            "path": path(),
        }
        if dice.random() < 0.7:
            found = places(obj)
            container, key = dice.choice(found) if found else ([None], 0)
            made["value"] = container[key] if dice.random() < 0.5 else junk(dice)
        if dice.random() < 0.4:
            made["from"] = path()
        return made

    def _delete(self, info: Kind, version: str) -> Sent:
        dice = self._dice
        path, content_type = self._path(info, version), self._content_type()
        if dice.random() < 0.9:
            path += f"/{self._name()}"
        body = b""
        if dice.random() < 0.5:
            options = self._values.make(definition(DELETE_OPTIONS))
            if isinstance(options, dict) and dice.random() < 0.8:
                options |= {"apiVersion": "v1", "kind": "DeleteOptions"}
            body = self._encode(options, content_type)
        return self._create_request("DELETE", path, content_type, body, info)

    def _read(self, info: Kind, version: str) -> Sent:
        path = self._path(info, version)
        if self._dice.random() < 0.5:
            path += f"/{self._name()}"
        elif info.namespaced and self._dice.random() < 0.3:
            path = path.partition("/namespaces/")[0] + f"/{info.plural}"
        given = {"watch": "true"} if self._dice.random() < 0.1 else {}
        return self._create_request(self._dice.choice(["GET", "GET", "HEAD"]), path, "", b"", info, **given)

    def _below(self, info: Kind, version: str) -> Sent:
        """Return a request for a subresource of this kind or, rarely, for one that no kind has."""
        dice = self._dice
        names = [*info.subresources_in(version), *BODIES]
        name = dice.choice(names[: -len(BODIES)] or names) if dice.random() < 0.9 else dice.choice(names)
        method = dice.choice(
            ["GET", "POST", "PUT", "PATCH", "DELETE"] if name not in BODIES else ["POST", "PUT", "PATCH"]
        )
        content_type = dice.choice(list(PATCHES.values())) if method == "PATCH" else self._content_type()
        path = f"{self._path(info, version)}/{self._name()}/{name}"
        made: Any = (
            self._values.make(definition(BODIES[name])) if name in BODIES else self._object(info, version)
        )
        if isinstance(made, dict) and name in BODIES:
            package, _, kind = BODIES[name].rpartition(".")
            group, made_version = package.split(".")[-2:]
            full = {"authentication": "authentication.k8s.io"}.get(group, group)
            made |= {
                "apiVersion": made_version if group == "core" else f"{full}/{made_version}",
                "kind": kind,
            }
            self._set_name(made, dice.choice(NAMES))
        body = b"" if method in ("GET", "DELETE") else self._encode(made, content_type)
        return self._create_request(method, path, content_type, body, info)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
