"""The options of a request for a log (``v1.PodLogOptions``)."""

from __future__ import annotations

from dra_shared.clock import rfc3339

from dra_apiserver.common.counts import NEGATIVE
from dra_apiserver.errors import FieldError, bad_request, forbidden_field, invalid, invalid_object
from dra_apiserver.handlers.options import parse_integer
from dra_apiserver.http import Request
from dra_apiserver.schema.values import Malformed, parse_time

_FLAGS = ("follow", "previous", "timestamps")
_NUMBERS = ("sinceSeconds", "tailLines", "limitBytes")
_TOO_FEW = "must be greater than 0"
_NO_TIME = "0001-01-01T00:00:00Z"


def log_options(request: Request, pod: str) -> dict[str, str]:
    """Return the options for the kubelet, in the order of Go's query encoding (`LogLocation`).

    Raises:
        StatusError: 400 or 422.
    """
    query = request.query
    numbers = {name: parse_integer(query[name]) for name in _NUMBERS if name in query}
    passed = {name: str(value) for name, value in numbers.items()}
    passed |= {name: "true" for name in _FLAGS if request.flag(name)}
    if "sinceTime" in query:
        passed["sinceTime"] = _moment(query["sinceTime"])
    if "stream" in query:
        passed["stream"] = query["stream"]
    if errors := _check(numbers, "sinceTime" in query):
        raise invalid_object("", "PodLogOptions", pod, errors)
    return dict(sorted(passed.items()))


def _moment(text: str) -> str:
    # Very old clients wrote null for no time.
    if text in ("", "null"):
        return _NO_TIME
    try:
        return rfc3339(parse_time(text))
    except Malformed as error:
        raise bad_request(str(error)) from None


def _check(numbers: dict[str, int], timed: bool) -> list[FieldError]:
    """Validate the options (upstream's ``ValidatePodLogOptions``)."""
    errors = []
    if (lines := numbers.get("tailLines", 0)) < 0:
        errors.append(invalid("tailLines", lines, NEGATIVE))
    if (size := numbers.get("limitBytes", 1)) < 1:
        errors.append(invalid("limitBytes", size, _TOO_FEW))
    seconds = numbers.get("sinceSeconds")
    if seconds is not None and timed:
        errors.append(forbidden_field("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        errors.append(invalid("sinceSeconds", seconds, _TOO_FEW))
    return errors
