"""Parse bodies in JSON, YAML, protobuf and CBOR (apimachinery's `runtime/serializer`)."""

import json
import math
import re
from typing import Any

import orjson
from dra_shared.numerals import integer
from dra_shared.repeatedkeys import RepeatedKeys

from dra_apiserver import cbor
from dra_apiserver.kindkit.kind import split_api_version
from dra_apiserver.schema.bodies import is_spaced
from dra_apiserver.schema.errors import DecodeError
from dra_apiserver.schema.jsontext import syntax_error
from dra_apiserver.schema.packages import package_name

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_MEDIA_TYPES = {"": JSON, "*/*": JSON, JSON: JSON, YAML: YAML, PROTOBUF: PROTOBUF}
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_META_PACKAGE = "io.k8s.apimachinery.pkg.apis.meta.v1"
_META_KINDS = frozenset({"DeleteOptions", "Status"})


def media_type(header: str, *, with_cbor: bool = False) -> str:
    """Return JSON, YAML, protobuf or, if supported, CBOR, from a Content-Type header (empty means JSON).

    Raises:
        DecodeError: 415, another type.
    """
    name = header.partition(";")[0].strip().lower()
    found = _MEDIA_TYPES.get(name)
    if found is None and with_cbor and name == cbor.MEDIA_TYPE:
        return name
    if found is None:
        accepted = (JSON, YAML, PROTOBUF, *([cbor.MEDIA_TYPE] if with_cbor else []))
        raise DecodeError(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted),
            415,
            "UnsupportedMediaType",
        )
    return found


def parse_body(body: bytes, form: str, kind: str, field_validation: str) -> Any:
    """Parse the JSON value of a body.

    Objects with repeated keys become :class:`RepeatedKeys` unless validation ignores them.

    Raises:
        CborError: the item is not accepted.
        DecodeError: the text is malformed.
    """
    if form == PROTOBUF:
        return _parse_protobuf(body, kind)
    if form == cbor.MEDIA_TYPE:
        return cbor.decode(body)
    if form == YAML:
        from dra_shared.yamltext import YamlError

        from dra_apiserver.schema.yamlbody import document

        try:
            return document(body).value
        except YamlError as error:
            raise unrecognized_error(kind, f"yaml: {error}", body) from error
    lenient = False
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        lenient = True
        value = _lenient(body)
        if value is None:
            raise unrecognized_error(kind, f"json parse error: {syntax_error(body)}", body) from error
    if field_validation != "Ignore" and may_repeat(body, value, lenient):
        value = json.loads(
            body.decode("utf-8", "replace"),
            object_pairs_hook=_pairs,
            parse_int=_go_number,
            parse_float=_finite,
        )
    return value


def _parse_protobuf(body: bytes, kind: str) -> dict[str, Any]:
    from dra_apiserver.schema.protobuf import ProtobufError, envelope, read_message

    try:
        api_version, found, raw = envelope(body)
        group, version = split_api_version(api_version)
        package = _META_PACKAGE if found in _META_KINDS else package_name(group, version)
        value = read_message(f"{package}.{found}", raw)
    except ValueError as error:
        text = str(error) if isinstance(error, ProtobufError) else f"unable to decode: {error}"
        raise DecodeError(f"the object provided is unrecognized (must be of type {kind}): {text}") from error
    return {**value, "apiVersion": api_version, "kind": found}


def may_repeat(body: bytes, value: Any, lenient: bool = False) -> bool:
    """True if ``body`` may have more keys than ``value``, its parsed value."""
    # Without spaces before colons and without characters escaped by number, quotes and colons in strings are
    # equal on both sides, so a dropped key changes the count.
    if not lenient and not is_spaced(body) and b"\\u00" not in body:
        try:
            return body.count(b'":') != orjson.dumps(value).count(b'":')
        except orjson.JSONEncodeError:
            pass  # Too deep for orjson.
    return _STRINGS.sub(b"", body).count(b":") != _count_keys(value)


def _lenient(body: bytes) -> Any:
    """Parse JSON that Go's decoder accepts and orjson does not: lone surrogates and invalid UTF-8 become U+FFFD."""
    try:
        text = body.decode("utf-8", "replace")
        value = json.loads(text, parse_constant=_no_constant, parse_int=_go_number, parse_float=_finite)
        return (
            orjson.loads(json.dumps(value).encode("utf-8"))
            if _storable(value)
            else _replace_surrogates(value)
        )
    except (ValueError, RecursionError):
        return None


def _go_number(text: str) -> int | float:
    """Return a whole number. Beyond 64 bits it is a float, as in orjson."""
    number = integer(text)
    return number if -(1 << 63) <= number < 1 << 64 else _finite(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"number {text} is out of range")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _storable(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return False
    return True


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replace_surrogates(one) for one in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(one) for key, one in value.items()}
    return value


def _count_keys(value: Any) -> int:
    count = 0
    pending = [value]
    while pending:
        one = pending.pop()
        if type(one) is dict:
            count += len(one)
            one = one.values()
        elif type(one) is not list:
            continue
        pending += [below for below in one if type(below) is dict or type(below) is list]
    return count


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else RepeatedKeys(pairs)


def unrecognized_error(kind: str, problem: str, body: bytes) -> DecodeError:
    return _unrecognized_error(kind, f"couldn't get version/kind; {problem}", body)


def without_kind(kind: str, problem: str, body: bytes) -> DecodeError:
    """Return upstream's error for a custom resource without kind."""
    return _unrecognized_error(kind, problem, body)


def unrecognized_cbor(kind: str, error: cbor.CborError, body: bytes) -> DecodeError:
    """Return upstream's error for an item whose kind cannot be determined."""
    return _unrecognized_error(kind, f"unable to determine group/version/kind: {error}", body)


def _unrecognized_error(kind: str, problem: str, body: bytes) -> DecodeError:
    shown = body.decode("utf-8", "replace") if body.lstrip()[:1] == b"{" else body.hex()
    if len(shown) > 1024:
        shown = shown[:1024] + f" [truncated {len(shown) - 1024} chars]"
    text = f"the object provided is unrecognized (must be of type {kind}): {problem} ({shown or '<empty>'})"
    return DecodeError(text)


def unknown_in_cbor(body: bytes, problem: str) -> str:
    """Return upstream's message for the first unknown member, given ours, which names its path."""
    value, path = cbor.decode(body), problem.partition('"')[2].rpartition('"')[0]
    while path:
        if isinstance(value, list):
            index, _, path = path[1:].partition("]")
            value, path = value[int(index)], path.removeprefix(".")
            continue
        keys = enumerate(value)
        place, key = next(
            ((at, key) for at, key in keys if re.match(rf"{re.escape(key)}(\.|\[|$)", path)), (0, path)
        )
        if key == path:
            return f"cbor: found unknown field at map element index {place}"
        value, path = value[key], path.removeprefix(key).removeprefix(".")
    return problem
