"""Warnings of commands that write objects: the server's own, and one that the server gives only to kubectl's apply."""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from dra_kube.manifests import Manifest

_HEADER = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_POD_SPECS = (("spec",), ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


class WarningWriter:
    """Writes each warning once, as kubectl does."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._written: set[str] = set()

    def __call__(self, text: str) -> None:
        """Write the warning, unless it was written before."""
        if text not in self._written:
            self._written.add(text)
            self._write(f"Warning: {text}")


def read_warnings(response: httpx.Response) -> Iterator[str]:
    """Yield the texts of the response's Warning headers."""
    for header in response.headers.get_list("warning"):
        if found := _HEADER.match(header):
            yield re.sub(r"\\(.)", r"\1", found[1])


def drop_hidden_variables(obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the object without environment variables that a later one of the same name hides, and warnings.

    Server-side apply rejects a repeated name. kubectl's own apply accepts it: the server then warns
    (pkg/api/pod/warnings.go), and the last value counts. A variable that a later one refers to is kept.
    """
    if not any(_find_hidden(obj)):
        return obj, []
    changed = copy.copy(obj) if isinstance(obj, Manifest) else dict(obj)
    changed.update(copy.deepcopy(dict(obj)))
    warnings = []
    drop: dict[int, tuple[list[Any], set[int]]] = {}
    for variables, earlier, text in _find_hidden(changed):
        warnings.append(text)
        drop.setdefault(id(variables), (variables, set()))[1].add(earlier)
    for variables, places in drop.values():
        variables[:] = [variable for place, variable in enumerate(variables) if place not in places]
    return changed, warnings


def _find_hidden(obj: dict[str, Any]) -> Iterator[tuple[list[Any], int, str]]:
    """Yield the list of variables, the index of a hidden one, and the server's warning about the later one."""
    for path in _POD_SPECS:
        spec: Any = obj
        for step in path:
            spec = spec.get(step) if isinstance(spec, dict) else None
        for field in _CONTAINERS:
            for index, container in enumerate(_items(spec, field)):
                where = f"{'.'.join(path)}.{field}[{index}]"
                yield from _find_hidden_in(_items(container, "env"), where)


def _find_hidden_in(variables: list[Any], where: str) -> Iterator[tuple[list[Any], int, str]]:
    seen: dict[str, int] = {}
    for index, variable in enumerate(variables):
        if not isinstance(variable, dict) or not isinstance(name := variable.get("name"), str):
            continue
        value = variable.get("value")
        extends = isinstance(value, str) and f"$({name})" in value
        if name in seen and not extends:
            text = f'{where}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
            yield variables, seen[name], text
        seen[name] = index


def _items(parent: Any, field: str) -> list[Any]:
    found = parent.get(field) if isinstance(parent, dict) else None
    return found if isinstance(found, list) else []
