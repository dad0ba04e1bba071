"""Format results as a table, JUnit XML, JSON, or a Markdown page."""

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import orjson
from dra_shared.version import VERSIONS, Version, release

from dra_conformance.check import Check, Outcome, Result

_WIDTH = 100
_SECTIONS = (
    (Outcome.BROKEN, "Broken"),
    (Outcome.WARNING, "Recommended, and not kept"),
    (Outcome.NOT_SHOWN, "Not shown, because of what the driver does"),
)
_SIGNS = {
    Outcome.KEPT: "kept",
    Outcome.BROKEN: "BROKEN",
    Outcome.WARNING: "warning",
    Outcome.SKIPPED: "skipped",
    Outcome.NOT_SHOWN: "not shown",
    Outcome.UNTRIED: "untried",
}


def line(result: Result) -> str:
    """Return the row of a result in the table."""
    check = result.check
    text = f"{_SIGNS[result.outcome]:9} {check.id:36} {check.title}"
    return f"{text}\n{'':10}{result.message}" if result.message else text


def summary(results: Sequence[Result], seconds: float) -> str:
    """Return the number of results of each outcome, in one line."""
    counts = Counter(result.outcome for result in results)
    parts = [f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome]]
    return f"{', '.join(parts)}; {seconds:.1f} s"


def is_passed(results: Sequence[Result]) -> bool:
    """True if no check is broken or untried.

    If the driver registers nothing, all checks are untried except the one that reports it, which is broken.
    """
    return not {result.outcome for result in results} & {Outcome.BROKEN, Outcome.UNTRIED}


def list_hidden(results: Sequence[Result]) -> str:
    """List the promises that could not be tested because of the driver's behaviour; "" if there are none."""
    found = [f"  {one.check.id}: {one.message}" for one in results if one.outcome is Outcome.NOT_SHOWN]
    return "\n".join(["Not shown, because of what the driver does:", *found]) if found else ""


def strictly(result: Result) -> Result:
    """Return the result; a broken recommendation, and a promise that could not be tested, count as broken."""
    if result.outcome is Outcome.NOT_SHOWN:
        return replace(result, outcome=Outcome.BROKEN, message=f"not shown: {result.message}")
    return replace(result, outcome=Outcome.BROKEN) if result.outcome is Outcome.WARNING else result


def leniently(result: Result) -> Result:
    """Return the result unchanged."""
    return result


def listing(checks: Sequence[Check], version: Version | None = None) -> str:
    """Return a line for each check.

    For a version, a line also says if the version lacks the check, or has it under a feature gate.
    """
    rows = []
    for check in checks:
        notes = ["recommended"] if check.recommended else []
        if version is None:
            notes += _lifetime(check)
        else:
            absence = check.absence(version)
            notes += [
                note for note in ([f"not tried: {absence}"] if absence else [check.maturity(version)]) if note
            ]
        rows.append(f"{check.id:36} {check.title}{' (' + '; '.join(notes) + ')' if notes else ''}")
    return "\n".join(rows)


def _lifetime(check: Check) -> list[str]:
    """Return the first and last version that have the check, unless these are the oldest and newest we know."""
    return [
        *([f"since {check.since}"] if check.since > VERSIONS[0] else []),
        *([f"until {check.until}"] if check.until < VERSIONS[-1] else []),
    ]


def explanation(check: Check) -> str:
    """Return the description of a check."""
    parts = [
        f"{check.id}: {check.title}",
        f"Promise{' (recommended)' if check.recommended else ''}: {check.promise}",
        *([f"Kubernetes: {', '.join(_lifetime(check))}"] if _lifetime(check) else []),
        *([f"Feature gate: {check.gate} ({_stages(check.gate)})"] if check.gate else []),
        f"Source: {check.source}",
        f"What a breach costs users: {check.cost}",
    ]
    return "\n".join(
        textwrap.fill(part, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for part in parts
    )


def _stages(gate: str) -> str:
    """Return the gate's stage in each version that has the gate."""
    known = ((version, release(version).gates.get(gate)) for version in VERSIONS)
    return ", ".join(f"{found.stage.lower()} in {version}" for version, found in known if found is not None)


def as_json(results: Sequence[Result], seconds: float, about: Mapping[str, str]) -> str:
    """Return all results as JSON."""
    document: dict[str, Any] = {
        **about,
        "passed": is_passed(results),
        "seconds": round(seconds, 3),
        "counts": Counter(result.outcome.value for result in results),
        "checks": [
            {
                "id": result.check.id,
                "title": result.check.title,
                "outcome": result.outcome.value,
                "message": result.message,
                "seconds": round(result.seconds, 3),
                "recommended": result.check.recommended,
                "promise": result.check.promise,
                "source": result.check.source,
                "cost": result.check.cost,
            }
            for result in results
        ],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def as_junit(results: Sequence[Result], seconds: float, about: Mapping[str, str]) -> str:
    """Return the results as JUnit XML for CI systems, one test case for each check."""
    counts = Counter(result.outcome for result in results)
    suite = ElementTree.Element(
        "testsuite",
        name=f"dralab conformance driver, Kubernetes {about['kubernetesVersion']}",
        tests=str(len(results)),
        failures=str(counts[Outcome.BROKEN]),
        errors=str(counts[Outcome.UNTRIED]),
        skipped=str(counts[Outcome.SKIPPED] + counts[Outcome.NOT_SHOWN]),
        time=f"{seconds:.3f}",
    )
    for result in results:
        check = result.check
        case = ElementTree.SubElement(
            suite, "testcase", classname=check.area, name=check.id, time=f"{result.seconds:.3f}"
        )
        message = _printable(result.message)
        if result.outcome is Outcome.BROKEN:
            failure = ElementTree.SubElement(case, "failure", message=message)
            failure.text = explanation(check)
        elif result.outcome is Outcome.UNTRIED:
            ElementTree.SubElement(case, "error", message=message)
        elif result.outcome is Outcome.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=message)
        elif result.outcome is Outcome.NOT_SHOWN:
            ElementTree.SubElement(case, "skipped", message=f"not shown: {message}")
        elif result.outcome is Outcome.WARNING:
            ElementTree.SubElement(case, "system-out").text = f"warning: {message}"
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")


def as_markdown(results: Sequence[Result], seconds: float, about: Mapping[str, str]) -> str:
    """Return a Markdown page: a badge, the broken checks, and then all checks."""
    counts = Counter(result.outcome for result in results)
    kept, tried = counts[Outcome.KEPT], len(results) - counts[Outcome.SKIPPED]
    color = "brightgreen" if is_passed(results) else "red"
    badge = (
        f"![DRA driver conformance](https://img.shields.io/badge/DRA_conformance-{kept}%2F{tried}-{color})"
    )
    rows = [
        f"# DRA driver conformance: {kept} of {tried}",
        "",
        badge,
        "",
        f"`{about['command']}` with Kubernetes {about['kubernetesVersion']}: {summary(results, seconds)}."
        f" dralab {about['dralab']}.",
    ]
    for outcome, title in _SECTIONS:
        chosen = [result for result in results if result.outcome is outcome]
        if chosen:
            rows += ["", f"## {title}"]
        for result in chosen:
            check = result.check
            rows += [
                "",
                f"* **{check.id}** ({check.title}): {_cell(result.message)}",
                f"  {check.promise} {check.cost}",
            ]
    rows += ["", "## All checks", "", "| check | what holds | result |", "|---|---|---|"]
    rows += [
        f"| {r.check.id} | {_cell(r.check.title)} | {r.outcome}"
        f"{': ' + _cell(r.message) if r.message and r.outcome is not Outcome.KEPT else ''} |"
        for r in results
    ]
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _printable(text: str) -> str:
    """Remove the control characters that XML does not allow."""
    return "".join(one for one in text if one.isprintable() or one in "\n\t")


FORMATS: Mapping[str, Callable[[Sequence[Result], float, Mapping[str, str]], str]] = {
    "json": as_json,
    "junit": as_junit,
    "markdown": as_markdown,
}
