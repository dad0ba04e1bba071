"""Test that times are read as Go's `time.Parse` does."""

from __future__ import annotations

import pytest
from dra_apiserver.schema.types import Scalar
from dra_apiserver.schema.values import READERS, Malformed

from tests.support.cases import each_case


@each_case(
    ("text", "kept"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+01:30", "2026-01-02T01:34:05Z"),
        ("2026-01-02T03:04:05-24:60", "2026-01-03T04:04:05Z"),
        ("0999-01-02T03:04:05+01:00", "0999-01-02T02:04:05Z"),
        ("0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_kept_in_utc(text: str, kept: str) -> None:
    assert READERS[Scalar.TIME](text) == kept


@each_case(
    ("text", "problem"),
    [
        ("0001-01-01T00:00:00+10:00", "year out of range"),
        ("9999-12-31T23:59:59-10:00", "year out of range"),
        ("2026-01-02T03:04:05+25:00", "time zone offset hour out of range"),
        ("2026-01-02T03:04:05+00:61", "time zone offset minute out of range"),
        ("2026-01-02T03:04:60Z", "second out of range"),
    ],
)
@each_case("scalar", [Scalar.TIME, Scalar.MICRO_TIME])
def test_invalid_times_are_rejected(scalar: Scalar, text: str, problem: str) -> None:
    """Check that the error has Go's words and is not an internal error."""
    with pytest.raises(Malformed) as caught:
        READERS[scalar](text)
    assert str(caught.value) == f'parsing time "{text}": {problem}'
