"""Walk an object along its type: prune it, check types, and collect unknown and duplicate fields."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from dra_shared.repeatedkeys import RepeatedKeys

from dra_apiserver.schema.types import Field, ListNode, MapNode, Node, Scalar, Struct
from dra_apiserver.schema.values import READERS, Malformed, WrongType, json_type

_MOST_STRICT_ERRORS = 100
_ZEROES = {
    Scalar.STRING: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.FLOAT: 0,
    Scalar.QUANTITY: "0",
    Scalar.INT_OR_STRING: 0,
}
_STRING = Scalar.STRING
_ANY = Scalar.ANY


class TypeMismatch(Exception):
    """A value is of the wrong type. The text is the message of Go's decoder.

    ``parts`` lead to the value: members, ``[index]``, ``{key``. They are empty if its text cannot be parsed.
    ``go`` is the expected type.
    """

    def __init__(self, text: str, parts: Sequence[str] = (), go: str = "") -> None:
        super().__init__(text)
        self.parts = tuple(parts)
        self.go = go


class Reader:
    """Reads one object in place. ``strict`` has the strict errors after :meth:`read`, at most 100."""

    readers: Mapping[Scalar, Callable[[Any], Any]] = READERS

    def __init__(self) -> None:
        self.strict: list[str] = []
        self._root: Node | None = None
        self._path: list[str] = []
        # Inside a custom resource wrong types are kept: its schema's validation reports them.
        self._lenient = False

    def read(self, node: Struct, obj: dict[str, Any], touched: Container[str] | None = None) -> None:
        """Bring ``obj`` to the form of the type ``node``. Only ``touched`` members (None: all) are read.

        Raises:
            TypeMismatch: a value is of the wrong type.
        """
        self._root = node
        if touched is None:
            self._members(node, obj)
            return
        part = {key: value for key, value in obj.items() if key in touched}
        self._members(node, part)
        for key in [key for key in obj if key in touched and key not in part]:
            del obj[key]
        obj.update(part)

    def _report(self, kind: str, name: str) -> None:
        if len(self.strict) >= _MOST_STRICT_ERRORS:
            return
        text = f'{kind} field "{self._location(name)}"'
        if text not in self.strict:
            self.strict.append(text)

    def _location(self, name: str) -> str:
        text = ""
        for part in [*self._path, name]:
            text += part if part.startswith("[") else f".{part.removeprefix('{')}"
        return text.removeprefix(".")

    def _field_path(self, parts: list[str]) -> str:
        """Return the path as in Go's decoder: fields of structs and their embedded structs, without indexes and
        keys of maps.
        """
        node = self._root
        shown: list[str] = []
        for part in parts:
            if isinstance(node, Struct):
                embedding = node.embedding(part)
                shown += [*embedding, part]
                member = node.fields.get(part)
                node = None if member is None else member.node
            elif isinstance(node, ListNode):
                node = node.item
            elif isinstance(node, MapNode):
                node = node.value
        return ".".join(shown)

    def _mismatch(self, found: str, struct: str, parts: list[str], go: str) -> TypeMismatch:
        owner, path = struct.rpartition(".")[2], self._field_path(parts)
        text = f"json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go}"
        return TypeMismatch(text, parts, go)

    def _report_repeated(self, obj: RepeatedKeys) -> None:
        seen: set[str] = set()
        for key in obj.keys_in_order:
            if key in seen:
                self._report("duplicate", key)
            seen.add(key)

    def _members(self, node: Struct, obj: dict[str, Any]) -> None:
        if type(obj) is RepeatedKeys:
            self._report_repeated(obj)
        fields, native = node.fields, node.native
        outer, self._lenient = self._lenient, not native
        for key, value in list(obj.items()):
            member = fields.get(key)
            if member is None:
                if not node.open:
                    self._report("unknown", key)
                    del obj[key]
                continue
            if value is None:
                if native:
                    del obj[key]
                continue
            kind = member.node
            if type(kind) is Scalar:
                if not native:
                    if type(value) is dict and kind is not _ANY:
                        self._prune(value, key)
                    continue
                if (kind is not _STRING or type(value) is not str) and kind is not _ANY:
                    obj[key] = value = self._scalar(node, member, kind, value)
                if not value and member.droppable:
                    del obj[key]
            elif type(kind) is Struct and type(value) is dict:
                self._path.append(key)
                self._members(kind, value)
                self._path.pop()
            else:
                self._compound(kind, value, node.name, key, member.go)
        self._lenient = outer

    def _prune(self, value: dict[str, Any], *path: str) -> None:
        """Remove all members of an object in a custom resource where a plain value is expected."""
        self._path += path
        for name in value:
            self._report("unknown", name)
        value.clear()
        del self._path[len(self._path) - len(path) :]

    def _scalar(self, node: Struct, member: Field, kind: Scalar, value: Any) -> Any:
        try:
            return self.readers[kind](value)
        except WrongType as error:
            go = error.go or _go(member)
            raise self._mismatch(error.found, node.name, [*self._path, member.name], go) from error
        except Malformed as error:
            raise TypeMismatch(str(error)) from error

    def _compound(self, kind: Node, value: Any, struct: str, key: str, go: str) -> Any:
        if self._lenient and not isinstance(value, list if type(kind) is ListNode else dict):
            return value
        if type(kind) is Struct:
            if not isinstance(value, dict):
                raise self._mismatch(_json_type(value), struct, [*self._path, key], go)
            self._path.append(key)
            self._members(kind, value)
            self._path.pop()
            return value
        if type(kind) is ListNode:
            if not isinstance(value, list):
                raise self._mismatch(_json_type(value), struct, [*self._path, key], go)
            self._items(kind, value, struct, key, go.removeprefix("[]"))
            return value
        assert type(kind) is MapNode
        if not isinstance(value, dict):
            raise self._mismatch(_json_type(value), struct, [*self._path, key], go)
        self._entries(kind, value, struct, key, go)
        return value

    def _items(self, kind: ListNode, value: list[Any], struct: str, key: str, go: str) -> None:
        item = kind.item
        self._path.append(key)
        for index, one in enumerate(value):
            if one is None and isinstance(item, Struct) and item.native:
                value[index] = {}
            elif one is None:
                value[index] = self._zero(item)
            else:
                self._path.append(f"[{index}]")
                value[index] = self._element(item, one, struct, go)
                self._path.pop()
        self._path.pop()

    def _entries(self, kind: MapNode, value: dict[str, Any], struct: str, key: str, go: str) -> None:
        item = kind.value
        go = go.partition("]")[2] if go.startswith("map[") else _go_name(item)
        self._path.append(key)
        if type(value) is RepeatedKeys:
            self._report_repeated(value)
        for name, one in list(value.items()):
            if one is None:
                if type(item) is Scalar:
                    value[name] = self._zero(item)
                elif isinstance(item, Struct) and item.native:
                    value[name] = {}
                continue
            self._path.append("{" + name)
            value[name] = self._element(item, one, struct, go)
            self._path.pop()
        self._path.pop()

    def _zero(self, item: Node) -> Any:
        """Return the meaning of null for an item or a value.

        Go converts it to a zero value; a custom resource keeps it.
        """
        return _ZEROES.get(item) if type(item) is Scalar and not self._lenient else None

    def _element(self, item: Node, value: Any, struct: str, go: str) -> Any:
        """Convert one list item or map value. The path already ends with its index or key."""
        if type(item) is Scalar:
            if self._lenient:
                if type(value) is dict and item is not _ANY:
                    self._prune(value)
                return value
            try:
                return self.readers[item](value)
            except WrongType as error:
                go = error.go or go or item.value
                raise self._mismatch(error.found, struct, self._path, go.removeprefix("*")) from error
            except Malformed as error:
                raise TypeMismatch(str(error)) from error
        if type(item) is Struct:
            if not isinstance(value, dict):
                if self._lenient:
                    return value
                raise self._mismatch(_json_type(value), struct, self._path, go.removeprefix("*"))
            self._members(item, value)
            return value
        last = self._path.pop()
        try:
            return self._compound(item, value, struct, last, go)
        finally:
            self._path.append(last)


def _json_type(value: Any) -> str:
    return json_type(value)


def _go(member: Field) -> str:
    return member.go or _go_name(member.node)


def _go_name(node: Node) -> str:
    return node.value if isinstance(node, Scalar) else ""


_NOTHING: Mapping[str, Any] = {}


def strip(node: Struct, obj: dict[str, Any], stored: Mapping[str, Any] = _NOTHING) -> None:
    """Remove the empty lists and maps that an encoded object omits, and set required ones to null.

    Validation sees them. Storage does not, because it does not distinguish an empty list from an absent one.
    Members that are identical to ``stored``'s are complete already.
    """
    empty: list[str] = []
    walk = node.droppable_below
    for key, value in obj.items():
        if not value:
            if type(value) is dict or type(value) is list:
                empty.append(key)
            continue
        found = walk.get(key)
        if found is None or value is stored.get(key):
            continue
        shape, below = found
        if shape is Struct:
            if isinstance(value, dict):
                strip(below, value)
        else:
            for one in value if shape is ListNode else value.values():
                if isinstance(one, dict):
                    strip(below, one)
    if empty and node.native:
        for key in empty:
            member = node.fields.get(key)
            if member is None or member.pointer:
                continue
            if member.droppable:
                del obj[key]
            elif isinstance(member.node, ListNode | MapNode):
                obj[key] = None


def complete(node: Struct, obj: dict[str, Any], stored: Mapping[str, Any] = _NOTHING) -> None:
    """Add the members that an encoded object always has (``status: {}``, ``lastProbeTime: null``).

    Members that are identical to ``stored``'s have them already.
    """
    for member in node.always:
        if member.name not in obj or (obj[member.name] is None and isinstance(member.node, Struct)):
            obj[member.name] = member.zero()
    walk = node.always_below
    if not walk:
        return
    for key, value in obj.items():
        found = walk.get(key)
        if found is None or value is None or value is stored.get(key):
            continue
        shape, below = found
        if shape is Struct:
            if isinstance(value, dict):
                complete(below, value)
        else:
            for one in value if shape is ListNode else value.values():
                complete(below, one)
