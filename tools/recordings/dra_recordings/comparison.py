"""Compare our answers with recorded ones of the real Kubernetes code, for ``dralab conformance``."""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol, cast

import orjson
from dra_kube.progress import Progress
from dra_shared.boundedfiles import read_all, read_file, read_standard_input
from dra_shared.errors import UserError
from dra_shared.version import RECORDED, VERSIONS, Version

_MOST = 1 << 30
# A version in a file's name, with or without its patch release.
_VERSION = re.compile(r"(?<![\d.])(1\.\d+)(?:\.\d+)?(?!\d)")


class Subject(Protocol):
    """A part of dralab that answers cases of one kind."""

    def answer(self, case: dict[str, Any]) -> dict[str, Any]:
        """Return our answer to one ``in``."""
        ...

    def agrees(self, ours: dict[str, Any], recorded: dict[str, Any]) -> bool:
        """True if our answer is the recorded one, in everything that is compared."""
        ...


def _alloc() -> Subject:
    from dra_recordings import alloc

    return alloc


def _cel() -> Subject:
    from dra_recordings import cel

    return cel


def _devicemanager() -> Subject:
    from dra_recordings import devicemanager

    return devicemanager


def _scheduler_config() -> Subject:
    from dra_recordings import schedulerconfig

    return schedulerconfig


def _validate() -> Subject:
    from dra_recordings import validate

    return validate


# A command imports only the service that it compares.
SUBJECTS: dict[str, Callable[[], Subject]] = {
    "alloc": _alloc,
    "cel": _cel,
    "devicemanager": _devicemanager,
    "scheduler-config": _scheduler_config,
    "validate": _validate,
}


def subject(name: str) -> Subject:
    """Return the part of dralab that answers cases of that kind.

    Raises:
        UserError: there is no such subject.
    """
    if name not in SUBJECTS:
        raise UserError(f"unknown subject {name!r}: choose {', '.join(SUBJECTS)}", 2)
    return SUBJECTS[name]()


def compare(name: str, path: Path, kubernetes: str = "") -> tuple[dict[str, Any], bool]:
    """Answer every case of ``path``, and compare. Return a summary, and True if all answers agree.

    A case that cannot be read counts as a disagreement and is reported in a line on stderr. Where the real
    code gave several answers (``outcomes``), any of them agrees; cases in which it panicked are left out, and
    counted. The summary names the versions of Kubernetes that the cases were answered as: ``kubernetes``, or
    that of each case.

    Raises:
        UserError: the file cannot be read, a line is not a case, or a version is unknown.
    """
    about = subject(name)
    disagree = []
    versions: set[str] = set()
    cases = panics = 0
    total, lines = _lines(name, path, kubernetes)
    with Progress("compared", total) as progress:
        for number, line in lines:
            progress.step()
            if not isinstance(line.get("out"), dict):
                raise UserError(f"{path}, line {number}: no `out` to compare with", 2)
            if "panic" in line["out"]:
                panics += 1
                continue
            cases += 1
            versions.add(line["in"]["kubernetesVersion"])
            try:
                ours = about.answer(line["in"])
                agrees = any(about.agrees(ours, out) for out in outcomes(line))
            except Exception as problem:
                agrees = False
                progress.note(f"dralab: {path}, line {number}: {_unanswerable(name, problem)}")
            if not agrees:
                disagree.append(str(line.get("name") or line["in"].get("name") or f"line {number}"))
    summary = {
        "cases": cases,
        "agree": cases - len(disagree),
        "disagree": disagree,
        "kubernetesVersions": sorted(versions, key=Version.parse),
    }
    return summary | ({"panics": panics} if panics else {}), not disagree


def outcomes(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers of the real code to one case, in all its runs."""
    return [*(line.get("outcomes") or ()), line["out"]]


def answers(name: str, path: Path, kubernetes: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the version and our answer for each case of ``path``.

    The answer is an ``error`` if the case makes no sense.

    Raises:
        UserError: as for :func:`compare`.
    """
    about = subject(name)
    for _, line in _lines(name, path, kubernetes)[1]:
        version = line["in"]["kubernetesVersion"]
        try:
            answer = about.answer(line["in"])
        except Exception as problem:
            answer = {"error": _unanswerable(name, problem)}
        yield version, answer


def _unanswerable(name: str, problem: Exception) -> str:
    reason = f"it has no {problem}" if isinstance(problem, KeyError) else f"{problem}"
    return f"not a case of {name}: {reason}".replace("\n", " ")


def _lines(name: str, path: Path, kubernetes: str) -> tuple[int, Iterator[tuple[int, dict[str, Any]]]]:
    """Return an upper bound of the number of cases, and an iterator over the cases with their numbers (their
    line, or place in ``cases``).

    Each ``in`` names the version of Kubernetes that the case is answered as. That is ``kubernetes`` unless it is empty,
    and else the first that is named by the case, the table and the file's name. Most recordings that name none are of
    1.36.
    """
    if kubernetes:
        kubernetes = _parse_version(kubernetes, "--kubernetes-version")
    data = _data(path)
    table = _load(data)
    named = _table_version(table) or _file_version(path)
    if table is not None:
        cases = [_case(name, case) for case in table["cases"]]
        return len(cases), _add_versions(path, enumerate(cases, start=1), kubernetes, named)
    return data.count(b"\n") + 1, _add_versions(path, _split(path, data), kubernetes, named)


def _add_versions(
    path: Path, cases: Iterable[tuple[int, dict[str, Any]]], kubernetes: str, named: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in cases:
        if not isinstance(line["in"], dict):
            raise UserError(f"{path}, case {number}: `in` is not an object", 2)
        own = line["in"].get("kubernetesVersion") or line.get("kubernetesVersion")
        version = kubernetes or _parse_version(str(own or named or RECORDED), f"{path}, case {number}")
        line["in"] = {**line["in"], "kubernetesVersion": version}
        yield number, line


def _parse_version(version: str, where: str) -> str:
    try:
        return str(Version.parse(version))
    except ValueError as error:
        raise UserError(f"{where}: {error}; --kubernetes-version replaces it", 2) from None


def _table_version(table: dict[str, Any] | None) -> str:
    """Return the version that a table says it was recorded from, or empty."""
    if table is None:
        return ""
    source = table.get("source")
    recorded = source.get("version") if isinstance(source, dict) else None
    return str(table.get("kubernetesVersion") or recorded or "")


def _file_version(path: Path) -> str:
    """Return the one known version that the file's name has, such as 1.34 of random-alloc-1.34.jsonl.gz, or empty."""
    known = {str(version) for version in VERSIONS}
    found = {match for match in _VERSION.findall(path.name) if match in known}
    return found.pop() if len(found) == 1 else ""


def _data(path: Path) -> bytes:
    """Return the content of the file, or of standard input for -, unpacked."""
    try:
        data = read_standard_input(_MOST) if str(path) == "-" else read_file(path, _MOST)
        if not data.startswith(b"\x1f\x8b"):
            return data
        return read_all(cast("IO[bytes]", gzip.open(io.BytesIO(data))), _MOST)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UserError(f"cannot read {path}: {reason}", 2) from error


def _split(path: Path, data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in enumerate(data.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            line = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise UserError(f"{path}, line {number}: {error}", 2) from error
        if not isinstance(line, dict) or not isinstance(line.get("in"), dict):
            raise UserError(
                f"{path}, line {number}: not a recorded case: it must be a JSON object whose field `in` is an object",
                2,
            )
        yield number, line


def _load(data: bytes) -> dict[str, Any] | None:
    """Return the one JSON object that has all ``cases``, or None if it is another file."""
    try:
        table = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    cases = table.get("cases") if isinstance(table, dict) else None
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        return None
    return dict(table)


def _case(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return a case of a table in the form that a line has. A case of upstream's own tests is its own input."""
    if "input" in case:
        return {"name": case.get("name"), "in": _input_of(case), "out": case.get("actual")}
    known = _UPSTREAM.get(name)
    out = known(case) if known else case.get("actual")
    if name == "alloc" and isinstance(out, dict):
        case = {"implementation": _recorded_allocator(case), **case}
    return {"name": case.get("name"), "in": case, "out": out}


def _recorded_allocator(case: dict[str, Any]) -> str:
    """Return the name of the allocator whose answer to one of upstream's own cases is compared."""
    actual = case.get("actual")
    return "incubating" if actual is None or actual["incubating"]["supported"] else "experimental"


def _input_of(case: dict[str, Any]) -> Any:
    """Return a case's input, with its kind if a table has several."""
    given = case["input"]
    return {**given, "kind": case["kind"]} if "kind" in case and isinstance(given, dict) else given


def _expected_allocation(case: dict[str, Any]) -> Any:
    """Return the answer of upstream's allocator: the incubating one, or the experimental one for features it lacks.

    Cases that were not run have the result that upstream's test expects.
    """
    actual = case.get("actual")
    if actual is not None:
        return actual[_recorded_allocator(case)]
    wanted = case["expect"]["results"] or ()
    return {"allocated": bool(wanted), "results": [one["allocation"] for one in wanted] or None}


def _expected_validation(case: dict[str, Any]) -> Any:
    return {"server": case["server"]} if "server" in case else None


# Where a case of upstream's own tests has the answer, for subjects that do not have it in `actual`.
_UPSTREAM: dict[str, Callable[[dict[str, Any]], Any]] = {
    "alloc": _expected_allocation,
    "validate": _expected_validation,
}
