import sys
from types import FrameType
from typing import Any

import pytest
from dra_shared.jsontext import MAX_DEPTH
from dra_shared.repeatedkeys import RepeatedKeys
from dra_shared.yamltext import YamlError, load, load_all

from tests.support.cases import each_case
from tests.support.yamltexts import bomb, chain


@each_case(
    ("text", "problem"),
    [
        (b"[" * 25_000, "exceeded max depth of 10000"),
        (b"{a: " * 25_000, "exceeded max depth of 10000"),
        (b"- " * 25_000, f"exceeded max depth of {MAX_DEPTH}"),
        (b"? " * 25_000, f"exceeded max depth of {MAX_DEPTH}"),
        (b"[" * (MAX_DEPTH + 1), f"exceeded max depth of {MAX_DEPTH}"),
        (bomb(9, 10), "document contains excessive aliasing"),
        (bomb(40, 2), "document contains excessive aliasing"),
        (chain(600), "document contains excessive aliasing"),
        (b"[" * (MAX_DEPTH - 2) + b"&a [[x]], " + b"*a, " * 10 + b"[*a]", f"max depth of {MAX_DEPTH}"),
        (b"a: &x {b: *x}", "anchor 'x' value contains itself"),
        (b"a: 1\nb: *nope\n", "unknown anchor 'nope' referenced"),
        (b"a:\n  <<: 5\n", "map merge requires map or sequence of maps as the value"),
        (b"a: !!int foo", "cannot decode !!str `foo` as a !!int"),
        (b"a: !!binary '***'", "!!binary value contains invalid base64 data"),
        (b"".join(b"%%TAG !%d! b\n" % index for index in range(2000)) + b"--- a\n", "%TAG directives"),
        (b"a: \x01", "control characters are not allowed"),
        (b"[1]: x", "line 1: a key must be text"),
    ],
)
def test_documents_with_excessive_aliases_are_rejected_quickly(text: bytes, problem: str) -> None:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    # Work is counted, not timed: a collection of garbage that earlier tests left can take a second.
    sys.setprofile(count)
    try:
        with pytest.raises(YamlError, match=problem):
            load(text)
    finally:
        sys.setprofile(None)
    assert calls < 1_000_000


def test_deep_flow_collections_are_parsed_in_bounded_time() -> None:
    with pytest.raises(YamlError, match="excessive nesting"):
        load(b"[" * 499 + b"1," * 300_000)


@pytest.mark.parametrize("opening", [b"[", b"- "])
def test_documents_of_the_greatest_depth_are_read(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b""
    value = load(opening * MAX_DEPTH + b"x" + closing * MAX_DEPTH).value
    for _ in range(MAX_DEPTH):
        [value] = value
    assert value == "x"


def test_the_limit_of_yaml_aliases_is_that_of_gos_library() -> None:
    plain = b"a: &a [" + b"x, " * 98 + b"x]\n"
    many = load(plain + b"b: [" + b"*a, " * 90 + b"]\n").value["b"]
    assert len(many) == 90
    assert all(one == ["x"] * 99 for one in many)
    with pytest.raises(YamlError, match="excessive aliasing"):
        load(plain + b"b: [" + b"*a, " * 5000 + b"]\n")


def test_each_alias_gets_a_copy_of_the_value() -> None:
    value = load(b"a: &a {x: [1]}\nb: *a\nc: [*a, *a]").value
    value["a"]["x"].append(2)
    value["c"][0]["y"] = 3
    assert value["b"] == {"x": [1]}
    assert value["c"][1] == {"x": [1]}


@each_case(
    ("text", "value"),
    [
        ("-0x1F", -31),
        ("0o17", 15),
        ("017", 15),
        ("089", 89.0),
        ("1_000", 1000),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("+", "+"),
        ("18446744073709551615", (1 << 64) - 1),
        ("18446744073709551616", float(1 << 64)),
        ("9" * 5000, "9" * 5000),
        ("2026-01-02", "2026-01-02"),
        ("=", "="),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!own 1", "1"),
        ("!!float 1", 1.0),
        ("!!binary aGk=", "hi"),
        ("<<", "<<"),
    ],
)
def test_scalars_are_typed_as_in_go(text: str, value: Any) -> None:
    found = load(f"a: {text}").value["a"]
    assert found == value
    assert type(found) is type(value)


def test_explicit_keys_and_earlier_merge_keys_take_precedence() -> None:
    text = b"base: &base {x: 1, z: 1}\nmore: &more {x: 2, w: 2}\nall: {<<: [*base, *more], z: 3}\none:\n  <<: *more\n"
    value = load(text).value
    assert value["all"] == {"x": 1, "w": 2, "z": 3}
    assert value["one"] == {"x": 2, "w": 2}


def test_lines_of_repeated_keys_are_found_in_aliased_values_too() -> None:
    read = load(b"a: &a {x: 1, x: 2}\nb: *a\na: 3\n1: x\n1: y\n")
    assert [tuple(one) for one in read.repeated] == [("x", 1), ("x", 1), ("a", 3), (1, 5)]
    assert isinstance(read.value, RepeatedKeys)
    assert isinstance(read.value["b"], RepeatedKeys)


def test_yaml_documents_of_a_file_are_read_one_by_one() -> None:
    documents = load_all(b"a: 1\n---\n---\n[")
    assert next(documents).value == {"a": 1}
    assert next(documents).value is None
    with pytest.raises(YamlError, match="did not find expected node content"):
        next(documents)


def test_an_anchor_ends_with_its_document() -> None:
    with pytest.raises(YamlError, match="unknown anchor"):
        list(load_all("a: &a 1\n---\nb: *a\n"))


@each_case(
    ("text", "problem"),
    [
        ("a: b: c\n", "mapping values are not allowed in this context"),
        ("a: 1\nb: c: d\n", "line 2: mapping values are not allowed in this context"),
        ("a: 1\nb:\n  c: {d: e\n  f: g\n", "line 3: did not find expected ',' or '}'"),
        # A root mapping begins in line zero, which Go's library omits.
        ("a: 1\nb:\n  c: d\n e: f\n", "line 3: did not find expected key"),
        ("a: 1\n---\nb:\n  c: d\n e: f\n", "line 4: did not find expected key"),
        ("a: 1\n---\nb:\n\tc: d\n", "line 4: found character that cannot start any token"),
    ],
)
def test_errors_have_the_line_number_that_kubectl_prints(text: str, problem: str) -> None:
    """In later documents too they count from the file's first line; kubectl's count from the document's."""
    with pytest.raises(YamlError) as error:
        list(load_all(text))
    assert str(error.value) == problem
