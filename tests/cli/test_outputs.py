"""Output formats of ``get -o``."""

import json
from pathlib import Path

import pytest
from dra_cli.outputs import show
from dra_shared.errors import UserError

from tests.support.cases import each_case

_A = ("pod/a", {"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 2}})
_B = ("pod/b", {"kind": "Pod", "metadata": {"name": "b"}, "spec": {"n": 10}})


def _text(output: str, *, headers: bool = True) -> str:
    shown = show(output, headers=headers)
    assert shown is not None
    return shown([_A, _B], False)


@each_case(
    ("output", "text"),
    [
        ("name", "pod/a\npod/b\n"),
        ("jsonpath={.items[*].metadata.name}", "a b"),
        ("jsonpath={.kind} of {.items[0].kind}", "List of Pod"),
        ("jsonpath-as-json={.items[*].spec.n}", "[\n    2,\n    10\n]\n"),
        (
            "custom-columns=NAME:.metadata.name,N:.spec.n,X:{.metadata.labels.x}",
            "NAME   N     X\na      2     1\nb      10    <none>\n",
        ),
        ('go-template={{range .items}}{{.metadata.name}}:{{.spec.n}}{{"\\n"}}{{end}}', "a:2\nb:10\n"),
        ("custom-columns=ALL:.metadata", "ALL\nmap[labels:map[x:1] name:a]\nmap[name:b]\n"),
    ],
)
def test_objects_are_printed_as_by_kubectl(output: str, text: str) -> None:
    assert _text(output) == text


def test_a_single_object_is_not_printed_as_a_list() -> None:
    for output, text in (("jsonpath={.metadata.name}", "a"), ("custom-columns=N:.spec.n", "N\n2\n")):
        shown = show(output)
        assert shown is not None
        assert shown([_A], True) == text
    assert json.loads((show("json") or _none)([_A], True)) == _A[1]


def test_managed_fields_are_left_out_of_json_and_yaml_unless_shown() -> None:
    managed = ("pod/a", {"kind": "Pod", "metadata": {"name": "a", "managedFields": [{"manager": "me"}]}})
    for output in ("json", "yaml"):
        for single in (True, False):
            hidden, shown = show(output), show(output, managed_fields=True)
            assert hidden is not None
            assert shown is not None
            assert "managedFields" not in hidden([managed], single)
            assert "manager" in shown([managed], single)
    template = show("jsonpath={.metadata.managedFields[0].manager}")
    assert template is not None
    assert template([managed], True) == "me"


def _none(objects: object, single: bool) -> str:
    raise AssertionError("json is an output")


def test_consecutive_yaml_documents_are_separated() -> None:
    shown = show("yaml")
    assert shown is not None
    assert not shown([_A], True).startswith("---")
    assert shown([_B], True).startswith("---\nkind: Pod\n")


def test_columns_may_have_no_headers_and_may_be_read_from_a_file(tmp_path: Path) -> None:
    assert _text("custom-columns=NAME:.metadata.name", headers=False) == "a\nb\n"
    (tmp_path / "columns").write_text("NAME  AMOUNT\nmetadata.name {.spec.n}\n")
    assert _text(f"custom-columns-file={tmp_path / 'columns'}") == "NAME   AMOUNT\na      2\nb      10\n"
    (tmp_path / "template").write_text("{.items[1].spec.n}\n")
    assert _text(f"jsonpath-file={tmp_path / 'template'}") == "10\n"


@each_case(
    ("output", "message"),
    [
        ("jsonpath", "template format specified but no template given"),
        ("jsonpath={.a", "error parsing jsonpath {.a, unclosed action"),
        ("jsonpath-file=/nonexistent", "error reading --template /nonexistent, "),
        ("custom-columns=", "custom-columns format specified but no custom columns given"),
        ("custom-columns=NAME", "unexpected custom-columns spec: NAME, expected <header>:<json-path-expr>"),
        ("custom-columns=N:{.a}{.b}", "unexpected path string, expected a 'name1.name2'"),
    ],
)
def test_an_invalid_template_is_rejected(output: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        show(output)
    assert str(refused.value).startswith(message)
    assert refused.value.code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "invalid template, missing header line. Expected format is one line of space separated headers"),
        ("A B\n", "invalid template, missing spec line. "),
        ("A B\n.a\n", "number of headers (2) and field specifications (1) don't match"),
    ],
)
def test_a_file_of_columns_must_have_two_lines(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "columns").write_text(text)
    with pytest.raises(UserError) as refused:
        show(f"custom-columns-file={tmp_path / 'columns'}")
    assert str(refused.value).startswith(message)


def test_a_template_that_does_not_match_the_objects_is_an_error() -> None:
    with pytest.raises(UserError, match="array index out of bounds: index 7, length 2") as refused:
        _text("jsonpath={.items[7]}")
    assert str(refused.value).startswith('error executing jsonpath "{.items[7]}": ')


def test_output_formats_without_a_template_are_not_parsed_as_templates() -> None:
    assert [show(output) for output in ("", "table", "yaml=x", "templates={{.}}")] == [None] * 4
