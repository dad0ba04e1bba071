"""Random objects, few of them valid: accepted or rejected, with the fields and reasons."""

from typing import Any

from dra_recordings.validate import agrees, answer

from tests.support.cases import check_all
from tests.support.reference import load_vectors


def test_random_objects_are_validated_as_upstream() -> None:
    check_all(((line["in"]["name"], line) for line in load_vectors("random-validate.jsonl.gz")), _check)


def _check(line: dict[str, Any]) -> None:
    ours = answer(line["in"])
    assert agrees(ours, line["out"]), (ours, line["out"])
    if "server" not in ours:
        return
    theirs = line["out"]["server"]
    # The parser of expressions has its own texts for syntax errors. All other texts are upstream's.
    bodies = [_body(error) for error in ours["server"]["errors"]]
    assert sorted(bodies) == sorted(_body(error) for error in theirs["errors"])


def _body(error: dict[str, Any]) -> str:
    body: str = error["body"]
    return "Syntax error" if "Syntax error" in body else body
