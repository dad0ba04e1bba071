from typing import Any

import orjson
import pytest
from dra_shared.jsontext import MAX_DEPTH, TooDeep, dumps

from tests.support.cases import each_case


def nest(levels: int, value: Any) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"b": value, "a": 1}
    return value


@each_case("option", [0, orjson.OPT_SORT_KEYS, orjson.OPT_INDENT_2])
@each_case("levels", [10, 253, 254, 255, MAX_DEPTH])
def test_deep_values_are_encoded_like_others(levels: int, option: int) -> None:
    text = dumps(nest(levels, "é"), option)
    if levels < 254:
        assert text == orjson.dumps(nest(levels, "é"), option=option)
    assert text.count(b"[") + text.count(b"{") == levels
    assert (text.find(b'"a"') < text.find(b'"b"')) == (option == orjson.OPT_SORT_KEYS)
    assert (b"\n" in text) == (option == orjson.OPT_INDENT_2)
    assert dumps(orjson.loads(text), option) == text


def test_values_that_are_too_deep_are_refused() -> None:
    with pytest.raises(TooDeep, match="exceeded max depth"):
        dumps(nest(MAX_DEPTH + 1, 1))


def test_values_without_a_json_form_are_refused() -> None:
    with pytest.raises(orjson.JSONEncodeError):
        dumps([1 << 70])
