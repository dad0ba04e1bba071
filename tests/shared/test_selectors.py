"""Test label and field selectors."""

from types import SimpleNamespace

import pytest
from dra_shared.fieldselectors import parse_field_selector
from dra_shared.selectors import SelectorError, label_selector, parse_label_selector
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}


@each_case(
    ("text", "selected"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("app=web", True),
        ("app==web", True),
        ("app!=web", False),
        ("other!=web", True),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("other notin (db)", True),
        ("other in (db)", False),
        ("n>4", True),
        ("n>5", False),
        ("n<6", True),
        ("app>1", False),
        ("other>1", False),
        ("empty=", True),
        ("empty in ()", True),
        ("app in (,web)", True),
        ("in in (in)", False),
        ("in notin (in)", True),
        (" app = web , tier in ( front ) ", True),
        ("app=web,tier=back", False),
        ("app,!other", True),
    ],
)
def test_label_selectors_match_the_expected_labels(text: str, selected: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is selected


@each_case(
    ("text", "message"),
    [
        ("n what 1", "unable to parse requirement: found 'what', expected: in, notin, =, ==, !=, gt, lt"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": "
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)  # fmt: skip
def test_label_selector_errors_equal_those_of_upstream(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value) == message


def test_label_keys_and_values_of_a_selector_are_validated() -> None:
    with pytest.raises(
        SelectorError, match=r'<nil>: Invalid value: "-a": name part must consist of alphanumeric'
    ):
        parse_label_selector("-a")
    with pytest.raises(SelectorError, match=r'values\[0\]\[a\]: Invalid value: "b\*": a valid label must be'):
        parse_label_selector("a=b*")


@given(st.text(alphabet="ab =!(),<>in-/.", max_size=30))
def test_any_text_is_parsed_or_raises_a_selector_error(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except SelectorError:
        return
    assert parse_label_selector(str(selector)) == selector


def test_label_selector_objects_are_parsed() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["front"]},
        {"key": "x", "operator": "DoesNotExist"},
    ]
    both = label_selector({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert both.matches(LABELS)
    assert str(both) == "app=web,tier in (front),!x"
    assert label_selector({}).matches(LABELS)
    assert not label_selector(None).matches(LABELS)
    item = SimpleNamespace(key="app", operator="NotIn", values=("db",))
    assert label_selector(SimpleNamespace(match_labels={}, match_expressions=(item,))).matches(LABELS)
    with pytest.raises(SelectorError, match='"Near" is not a valid label selector operator'):
        label_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]})


@each_case(
    ("text", "selected"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name!=a", False),
        ("metadata.name=a,spec.nodeName=n,", True),
        ("metadata.name=a,spec.nodeName!=n", False),
        (r"odd=x\,y\=z\\", True),
        ("absent=", True),
    ],
)
def test_field_selectors_match_the_expected_fields(text: str, selected: bool) -> None:
    fields = {"metadata.name": "a", "spec.nodeName": "n", "odd": "x,y=z\\"}
    assert parse_field_selector(text).matches(lambda name: fields.get(name, "")) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_field_selector_errors_equal_those_of_upstream(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message


def test_the_exact_value_of_a_selected_field_is_returned() -> None:
    selector = parse_field_selector("metadata.name=a,x!=y")
    assert selector.exact("metadata.name") == "a"
    assert selector.exact("x") is None
