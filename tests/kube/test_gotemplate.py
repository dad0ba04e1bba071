"""Templates of ``-o go-template``, compared with the output of Go's text/template 1.26 for the same data."""

import json
from typing import Any

import pytest
from dra_kube.gotemplate import GoTemplate, TemplateError

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY

_RECORDED = json.loads((REPOSITORY / "tests/data/gotemplates.json").read_text())


@each_case("case", _RECORDED["cases"], ids=lambda case: case["template"])
def test_a_template_has_the_output_or_error_of_go(case: dict[str, str]) -> None:
    if "error" in case:
        with pytest.raises(TemplateError) as error:
            GoTemplate(case["template"]).text(_RECORDED["data"])
        assert str(error.value) == case["error"]
    else:
        assert GoTemplate(case["template"]).text(_RECORDED["data"]) == case["out"]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (
            '{{exists . "a" "b"}} {{exists . "a" "c"}} {{exists . "l" 0}} {{exists . "l" 1}}',
            "true false true false",
        ),
        ("{{base64decode .secret}}", "text"),
    ],
)
def test_template_functions_that_kubectl_adds_are_supported(template: str, text: str) -> None:
    data: Any = {"a": {"b": None}, "l": [1], "secret": "dGV4dA=="}
    assert GoTemplate(template).text(data) == text


def test_endless_recursion_of_a_template_is_an_error() -> None:
    with pytest.raises(TemplateError, match="exceeded maximum template depth"):
        GoTemplate('{{define "t"}}{{template "t"}}{{end}}{{template "t"}}').text({})
