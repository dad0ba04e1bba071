"""Semantic versions.

Mirrors k8s.io/apiserver/pkg/cel/library/semverlib.go.
"""

from typing import Final

from dra_shared.cel.declarations import Function, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import estimate_scan, scan
from dra_shared.semver import Semver, SemverError

_MAX_INT: Final = (1 << 63) - 1


def semver(text: str, normalize: bool = False) -> Semver:
    try:
        return Semver.parse_normalized(text) if normalize else Semver.parse(text)
    except SemverError as error:
        raise EvaluationError(str(error)) from None


def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _to_signed(number: int) -> int:
    return number if number <= _MAX_INT else number - (1 << 64)


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "isGreaterThan",
        overload(".semver_is_greater_than(Semver, Semver) bool", lambda a, b: a.compare(b) == 1),
    ),
    function(
        "isLessThan",
        overload(".semver_is_less_than(Semver, Semver) bool", lambda a, b: a.compare(b) == -1),
    ),
    function("compareTo", overload(".semver_compare_to(Semver, Semver) int", Semver.compare)),
    function(
        "semver",
        overload("string_to_semver(string) Semver", semver),
        overload("string_bool_to_semver(string, bool) Semver", semver),
        cost=scan(),
        estimate=estimate_scan(),
    ),
    function(
        "isSemver",
        overload("is_semver_string(string) bool", is_semver),
        overload("is_semver_string_bool(string, bool) bool", is_semver),
        cost=scan(),
        estimate=estimate_scan(),
    ),
    function("major", overload(".semver_major(Semver) int", lambda value: _to_signed(value.major))),
    function("minor", overload(".semver_minor(Semver) int", lambda value: _to_signed(value.minor))),
    function("patch", overload(".semver_patch(Semver) int", lambda value: _to_signed(value.patch))),
)
