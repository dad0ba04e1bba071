"""With declared rules, 1.37 rejects the same fields for the same reasons. Only order and wording differ."""

import copy
from collections.abc import Iterator

import pytest
from dra_apiserver.kinds.resource import strategy
from dra_recordings.validate import answer
from dra_shared.jsontypes import JsonObject

from tests.support.reference import load_vectors

_CASES = [line["in"] for line in load_vectors("random-validate.jsonl.gz")][:400]


def _errors(case: JsonObject) -> list[tuple[str, str, str]]:
    found = answer({**copy.deepcopy(case), "kubernetesVersion": "1.37"}).get("server", {}).get("errors") or ()
    return [(error["type"], error["field"], error["body"]) for error in found]


def _find_differences(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, bool]]:
    """Yield cases whose errors differ. The flag is set if more than order and wording differ."""
    for case in _CASES:
        with_them = _errors(case)
        with monkeypatch.context() as patched:
            patched.setattr(strategy, "with_declared", lambda errors, *_: errors)
            without = _errors(case)
        if with_them != without:
            places = [sorted(error[:2] for error in errors) for errors in (with_them, without)]
            yield case["name"], places[0] != places[1]


def test_declared_rules_reject_the_same_fields_as_hand_written_code(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(_find_differences(monkeypatch))
    assert found
    assert [name for name, more in found.items() if more] == []
