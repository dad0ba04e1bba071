"""Conditions of ``wait --for`` (staging/src/k8s.io/kubectl/pkg/cmd/wait)."""

from collections.abc import Callable
from typing import Any

from dra_shared.errors import UserError
from dra_shared.jsonpath import PathError, path
from dra_shared.jsonpath.golang import format_value

#: A test that returns True if the object meets a condition.
Condition = Callable[[dict[str, Any]], bool]
_FORMAT = (
    "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or "
    "--for=jsonpath='{.status.readyReplicas}'"
)


def condition(text: str) -> Condition:
    """Return the test for a value of ``--for``. ``create`` is met by every object that exists.

    Raises:
        UserError: the text is not a condition. The test raises it if a path leads to several values, or to one that
            cannot be compared.
    """
    kind, _, rest = text.partition("=")
    if text.lower() == "create":
        return lambda obj: True
    if kind == "condition" and rest:
        name, _, wanted = rest.partition("=")
        return lambda obj: _has(obj, name, wanted or "true")
    if kind == "jsonpath" and rest:
        return _at_path(rest)
    raise UserError(f'unrecognized condition: "{text}"', 2)


def _has(obj: dict[str, Any], name: str, wanted: str) -> bool:
    """True if the condition has that status, and is not about an older generation of the object."""
    status = obj.get("status") or {}
    for one in status.get("conditions") or ():
        if one.get("type", "").casefold() != name.casefold():
            continue
        observed = one.get("observedGeneration", status.get("observedGeneration"))
        generation = obj["metadata"].get("generation")
        if generation is not None and observed is not None and observed < generation:
            return False
        return bool(one.get("status", "").casefold() == wanted.casefold())
    return False


def _at_path(text: str) -> Condition:
    # A single = ends the path; == is a part of it.
    expression, *values = (part.replace("\0", "==") for part in text.replace("==", "\0").split("="))
    if len(values) > 1:
        raise UserError(_FORMAT, 2)
    wanted = values[0].strip("'\"") if values else None
    if wanted == "":
        raise UserError(
            "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3",
            2,
        )
    try:
        template = path(expression.strip())
    except PathError as error:
        raise UserError(str(error), 2) from error

    def holds(obj: dict[str, Any]) -> bool:
        try:
            found = template.values(obj)
        except PathError as error:
            raise UserError(str(error)) from error
        if len(found) > 1:
            raise UserError("given jsonpath expression matches more than one value")
        if not found or wanted is None:
            return bool(found)
        if isinstance(found[0], dict | list):
            raise UserError("jsonpath leads to a nested object or list which is not supported")
        return format_value(found[0]).strip() == wanted.strip()

    return holds
