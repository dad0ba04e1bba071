"""Findings of a check, and their formats as text and JSON."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

REFUSED, DROPPED, OTHERWISE, WARNED, NOTED = "refused", "dropped", "otherwise", "warned", "noted"
LEVELS = (REFUSED, DROPPED, OTHERWISE, WARNED, NOTED)
_INDEX = re.compile(r"\[\d+\]")
# Findings of these levels make the command fail; the others are only shown.
_GRAVE = frozenset({REFUSED, DROPPED, OTHERWISE})


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change between the current version and the other one.

    ``about`` is object, gate, driver, node or pod, and ``subject`` its name. ``advice`` says what to do. If
    ``before`` is set, the current version has the same problem, so the change of version does not cause it.
    """

    level: str
    about: str
    subject: str
    text: str
    advice: str = ""
    where: str = ""
    before: bool = False


class Report(msgspec.Struct, frozen=True):
    """The result of a check.

    ``checked`` counts the checked objects, gates and drivers; ``unknown`` lists kinds that could not be
    checked.
    """

    current: str
    against: str
    checked: dict[str, int]
    unknown: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        """True if everything that works in the current version also works in the other one."""
        return not any(each.level in _GRAVE and not each.before for each in self.findings)

    def builtins(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {**msgspec.to_builtins(self), "good": self.good}


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without duplicates, the most severe first."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda one: (one.before, LEVELS.index(one.level))))


def text(report: Report) -> str:
    """Format the report for people: a paragraph for each level, and one or two lines for each finding."""
    counted = ", ".join(f"{count} {name}" for name, count in report.checked.items() if count)
    lines = [f"Kubernetes {report.current} -> {report.against}: {counted or 'gates alone'}"]
    for before, level in [(before, level) for before in (False, True) for level in LEVELS]:
        found = [one for one in report.findings if (one.before, one.level) == (before, level)]
        if found:
            title = f"{level}, in {report.current} as well:" if before else f"{level}:"
            lines += ["", title, *(_gates(found) if level == NOTED else _lines(found))]
    if report.unknown:
        lines += ["", f"not judged, not kinds of Kubernetes: {', '.join(report.unknown)}"]
    if not report.findings:
        lines.append("nothing is rejected, dropped or done differently")
    return "\n".join(lines)


def _lines(found: Iterable[Finding]) -> Iterator[str]:
    """Yield one or two lines for each finding. Findings that many items of a list share appear once."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for one in found:
        text = _INDEX.sub("[]", one.text)
        groups.setdefault((one.subject, one.where, one.advice, text), []).append(one)
    for first, *others in groups.values():
        where = f" ({first.where})" if first.where else ""
        more = f", and {len(others)} more such" if others else ""
        yield f"  {first.subject}{where}: {first.text}{more}"
        if first.advice:
            yield f"    to do: {first.advice}"


def _gates(found: Iterable[Finding]) -> Iterator[str]:
    """Return a line for each way in which defaults of gates change, because there are many such gates."""
    names: dict[str, list[str]] = {}
    for one in found:
        names.setdefault(one.text.partition(" (")[0], []).append(one.subject)
    for became, gates in names.items():
        yield f"  {became}: {', '.join(gates)}"
