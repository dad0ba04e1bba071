"""``dralab conformance``: our answers held against recorded ones of the real Kubernetes code."""

import gzip
import importlib
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol, cast

import orjson
from dra_shared.boundedfiles import read_all, read_file, read_standard_input

from dra_cli.errors import CommandError
from dra_cli.progress import Progress

_MOST = 1 << 30


class Subject(Protocol):
    """What is compared: a part of dralab that answers cases of one kind."""

    def answer(self, case: dict[str, Any]) -> dict[str, Any]:
        """Our answer to one ``in``."""
        ...

    def agrees(self, ours: dict[str, Any], recorded: dict[str, Any]) -> bool:
        """Whether our answer is the recorded one, in all that is compared."""
        ...


SUBJECTS = {
    "alloc": "dra_scheduler.allocator.conformance",
    "cel": "dra_shared.cel.conformance",
    "devicemanager": "dra_node_agent.kubelet.devicemanager.conformance",
    "scheduler-config": "dra_scheduler.componentconfig.conformance",
    "validate": "dra_apiserver.conformance",
}


def subject(name: str) -> Subject:
    """The part of dralab that answers cases of that kind.

    Raises:
        CommandError: there is none of that name.
    """
    if name not in SUBJECTS:
        raise CommandError(f"unknown subject {name!r}: choose {', '.join(SUBJECTS)}", 2)
    return cast("Subject", importlib.import_module(SUBJECTS[name]))


def compare(name: str, path: Path, kubernetes: str = "") -> tuple[dict[str, Any], bool]:
    """Answer every case of ``path`` and compare; gives the summary, and whether all agree.

    A case that cannot be read counts as a disagreement and is reported in a line on stderr. Where the real code gave
    several answers (``outcomes``), any of them agrees; cases in which it panicked are left out, and counted.

    Raises:
        CommandError: the file cannot be read, or a line is no case.
    """
    about = subject(name)
    disagree = []
    cases = panics = 0
    total, lines = _lines(name, path, kubernetes)
    with Progress("compared", total) as progress:
        for number, line in lines:
            progress.step()
            if not isinstance(line.get("out"), dict):
                raise CommandError(f"{path}, line {number}: no `out` to compare with", 2)
            if "panic" in line["out"]:
                panics += 1
                continue
            cases += 1
            try:
                ours = about.answer(line["in"])
                agrees = any(about.agrees(ours, out) for out in outcomes(line))
            except Exception as problem:
                agrees = False
                progress.note(f"dralab: {path}, line {number}: {_unanswerable(name, problem)}")
            if not agrees:
                disagree.append(str(line.get("name") or line["in"].get("name") or f"line {number}"))
    summary = {"cases": cases, "agree": cases - len(disagree), "disagree": disagree}
    return summary | ({"panics": panics} if panics else {}), not disagree


def outcomes(line: dict[str, Any]) -> list[dict[str, Any]]:
    """What the real code answered to one case, in all its runs."""
    return [*(line.get("outcomes") or ()), line["out"]]


def answers(name: str, path: Path, kubernetes: str = "") -> Iterator[dict[str, Any]]:
    """Our answer for each case of ``path``, an ``error`` for one that makes no sense; raises as :func:`compare`."""
    about = subject(name)
    for _, line in _lines(name, path, kubernetes)[1]:
        try:
            answer = about.answer(line["in"])
        except Exception as problem:
            answer = {"error": _unanswerable(name, problem)}
        yield answer


def _unanswerable(name: str, problem: Exception) -> str:
    reason = f"it has no {problem}" if isinstance(problem, KeyError) else f"{problem}"
    return f"not a case of {name}: {reason}".replace("\n", " ")


def _lines(name: str, path: Path, kubernetes: str) -> tuple[int, Iterator[tuple[int, dict[str, Any]]]]:
    """How many cases there are, at most, and each with its number: that of its line, or its place in ``cases``.

    They are for a version of Kubernetes unless they name their own.
    """
    data = _data(path)
    table = _table(name, data)
    if table is not None:
        return len(table), _versioned(enumerate(table, start=1), kubernetes)
    return data.count(b"\n") + 1, _versioned(_split(path, data), kubernetes)


def _versioned(
    cases: Iterable[tuple[int, dict[str, Any]]], kubernetes: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in cases:
        if kubernetes and isinstance(line["in"], dict):
            line["in"] = {"kubernetesVersion": kubernetes, **line["in"]}
        yield number, line


def _data(path: Path) -> bytes:
    """What the file has, or standard input for -, unpacked."""
    try:
        data = read_standard_input(_MOST) if str(path) == "-" else read_file(path, _MOST)
        if not data.startswith(b"\x1f\x8b"):
            return data
        return read_all(cast("IO[bytes]", gzip.open(io.BytesIO(data))), _MOST)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CommandError(f"cannot read {path}: {reason}", 2) from error


def _split(path: Path, data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in enumerate(data.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            line = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise CommandError(f"{path}, line {number}: {error}", 2) from error
        if not isinstance(line, dict) or not isinstance(line.get("in"), dict):
            raise CommandError(f"{path}, line {number}: not a case with `in`", 2)
        yield number, line


def _table(name: str, data: bytes) -> list[dict[str, Any]] | None:
    """The cases of one JSON object that has them all, as lines have them; None: it is another file."""
    try:
        table = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    cases = table.get("cases") if isinstance(table, dict) else None
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        return None
    return [_case(name, case) for case in cases]


def _case(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """A table's case as a line has it; the cases of upstream's own tests are their own input."""
    if "input" in case:
        return {"name": case.get("name"), "in": _given(case), "out": case.get("actual")}
    known = _UPSTREAM.get(name)
    return {"name": case.get("name"), "in": case, "out": known(case) if known else case.get("actual")}


def _given(case: dict[str, Any]) -> Any:
    """A case's input, with its kind where a table has several."""
    given = case["input"]
    return {**given, "kind": case["kind"]} if "kind" in case and isinstance(given, dict) else given


def _allocated(case: dict[str, Any]) -> Any:
    """What upstream's allocator answered: the incubating one or, where that lacks a feature, the experimental one.

    Cases that were not run have what upstream's test expects.
    """
    actual = case.get("actual")
    if actual is not None:
        incubating = actual["incubating"]
        return incubating if incubating["supported"] else actual["experimental"]
    wanted = case["expect"]["results"] or ()
    return {"allocated": bool(wanted), "results": [one["allocation"] for one in wanted] or None}


def _validated(case: dict[str, Any]) -> Any:
    return {"server": case["server"]} if "server" in case else None


# Where a case of upstream's own tests has the answer, for subjects that do not have it in `actual`.
_UPSTREAM: dict[str, Callable[[dict[str, Any]], Any]] = {"alloc": _allocated, "validate": _validated}
