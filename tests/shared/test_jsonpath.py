"""JSONPath as in kubectl. The expected outputs were printed by kubectl's own package."""

from typing import Any

import pytest
from dra_shared.jsonpath import PathError, Template, path
from dra_shared.jsonpath.golang import format_value

from tests.support.cases import each_case

_POD = {
    "metadata": {"labels": {"app.kubernetes.io/name": "x"}, "a-b": 1},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Other", "status": "False", "on": True},
        ],
    },
}
_LIST = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"tier": "<b>"}}, "spec": {"n": 3, "list": [1, 2, 3, 4]}},
        {"metadata": {"name": "b"}, "spec": {"n": 5, "list": [], "none": None}},
    ],
}


@each_case(
    ("expression", "found"),
    [
        ("{.status.phase}", ["Running"]),
        ("{status.phase}", ["Running"]),
        (".status.phase", ["Running"]),
        ("status.phase", ["Running"]),
        ("{$.status.phase}", ["Running"]),
        ("{.status['phase']}", ["Running"]),
        ("{.metadata.labels.app\\.kubernetes\\.io/name}", ["x"]),
        ("{.metadata.labels['app\\.kubernetes\\.io/name']}", ["x"]),
        ("{.metadata.a-b}", [1]),
        ("{.status.conditions[0].type}", ["Ready"]),
        ("{.status.conditions[-1].type}", ["Other"]),
        ("{.status.conditions[*].status}", ["True", "False"]),
        ("{.metadata.labels.*}", ["x"]),
        ('{.status.conditions[?(@.type=="Ready")].status}', ["True"]),
        ("{.status.conditions[?(@.type != 'Ready')].status}", ["False"]),
        ("{.status.conditions[?(@.on!=false)].type}", ["Other"]),
        ("{.status.conditions[?(@.on==true)].type}", ["Other"]),
        ("{.status.conditions[?(@.on)].type}", ["Other"]),
        ("{.spec}", []),
    ],
)
def test_a_jsonpath_returns_the_selected_values(expression: str, found: list[Any]) -> None:
    assert path(expression).values(_POD) == found


@pytest.mark.parametrize("expression", ["", "{}", "{.a}{.b}"])
def test_a_template_is_rejected_as_a_path(expression: str) -> None:
    with pytest.raises(PathError, match="unexpected path string"):
        path(expression)


@each_case(
    ("template", "text"),
    [
        (".kind", ".kind"),
        ("kind: {.kind}!", "kind: List!"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[*]['metadata.name','spec.n']}", "a b 3 5"),
        ("{.items[0].spec.list}", "[1,2,3,4]"),
        ("{.items[0].metadata}", r'{"labels":{"tier":"\u003cb\u003e"},"name":"a"}'),
        ("{.items[0].spec.list[0:2]}", "1 2"),
        ("{.items[0].spec.list[::2]}", "1 3"),
        ("{.items[0].spec.list[-2:]}", "3 4"),
        ("{.items[0].spec.list[0,3]}", "1 4"),
        ("{.items[0].spec.list[1:1]}", ""),
        ('{range .items[*]}{.metadata.name}={.spec.n}{"\\n"}{end}done', "a=3\nb=5\ndone"),
        ("{range .items[*]}[{range .spec.list[*]}{@},{end}]{end}", "[1,2,3,4,][]"),
        ("{range .items[*]}{.metadata.name}", "ab"),
        ("{range .nothing[*]}{.metadata.name}{end}none", "none"),
        ("{..name}", "a b"),
        ("{.items[?(@.spec.n>3)].metadata.name}", "b"),
        ("{.items[?(@.spec.n<=3)].metadata.name}", "a"),
        ('{.items[?(@.metadata.labels.tier=="<b>")].metadata.name}', "a"),
        ("{.items[1].spec.none}", "<nil>"),
        ("{'a \\'quoted\\' text'}{\"\\t\\u00e4\\x41\"}", "a 'quoted' text\täA"),
        ("{1}{2.50}{true}", "12.5true"),
    ],
)
def test_a_template_is_printed_as_text(template: str, text: str) -> None:
    assert Template(template).text(_LIST) == text


@each_case(
    ("template", "message"),
    [
        ("{.a", "unclosed action"),
        ("{.a\n}", "unclosed action"),
        ("{.a[}", "unterminated array"),
        ("{.a[x]}", "invalid array index x"),
        ("{.a[?(@.b}", "unterminated filter"),
        ("{.a[?(@.b)}", "unclosed array expect ]"),
        ("{....a}", "invalid multiple recursive descent"),
        ("{'a}", "unterminated quoted string"),
        ("{'\\q'}", r"unquote string '\\q' error invalid syntax"),
        ("{1.2.3}", "cannot parse number 1.2.3"),
        ("{=}", r"unrecognized character in action: U\+003D '='"),
    ],
)
def test_an_invalid_template_is_rejected(template: str, message: str) -> None:
    with pytest.raises(PathError, match=f"^{message.replace('?', '.')}$"):
        Template(template)


@each_case(
    ("template", "message"),
    [
        ("{.items[7]}", "array index out of bounds: index 7, length 2"),
        ("{.items[0:7]}", "array index out of bounds: index 6, length 2"),
        ("{.items[0].spec.list[3:1]}", "starting index 3 is greater than ending index 1"),
        ("{.items[0:2:0]}", "step must be > 0"),
        ("{.kind[0]}", "string is not array or slice"),
        ("{.items[0][0]}", r"map\[string\]interface {} is not array or slice"),
        ("{.kind[?(@.x)]}", "List is not array or slice and cannot be filtered"),
        ("{nonsense}", "unrecognized identifier nonsense"),
        ("{end}", "not in range, nothing to end"),
        ("{.items[?(@.spec.n=='3')]}", "incompatible types for comparison"),
        ("{.items[?(@.spec.n==2.5)]}", "incompatible types for comparison"),
        ("{.items[?(@.spec<3)]}", "invalid type for comparison"),
        ("{.items[?(@.spec.n=!3)]}", "unrecognized filter operator =!"),
        ("{.items[?(@.spec.list[*]==1)]}", "can only compare one element at a time"),
    ],
)
def test_a_template_that_does_not_match_the_object_is_an_error(template: str, message: str) -> None:
    with pytest.raises(PathError, match=f"^{message}$"):
        Template(template).text(_LIST)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1000000.5, "1.0000005e+06"),
        (-0.00001, "-1e-05"),
        (100.25, "100.25"),
        (2e30, "2e+30"),
        ({"b": [1, "x"], "a": None}, "map[a:<nil> b:[1 x]]"),
    ],
)
def test_values_are_printed_as_in_go(value: Any, text: str) -> None:
    assert format_value(value) == text
