"""``python -m tools.compare``: random cases, answered by dralab and by the real packages of a Kubernetes release."""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_recordings import alloc as allocator
from dra_recordings import cel
from dra_shared.jsontypes import JsonObject
from dra_shared.log import configure
from dra_shared.version import V1_34, V1_37, VERSIONS, Version

from tools.compare import preparations, taints, writes
from tools.compare.expressions import draw_expression
from tools.compare.shrink import shrink
from tools.compare.upstream import Upstream, build
from tools.compare.worlds import draw_world


@dataclass(frozen=True)
class Subject:
    """One kind of case: functions that draw a case, answer it with dralab, and compare two answers."""

    draw: Callable[[str, Version], JsonObject]
    answer: Callable[[JsonObject], JsonObject]
    agrees: Callable[[JsonObject, JsonObject], bool]
    program: str = "upstream"
    """The program of tools/upstream that gives the real answers."""
    since: Version = V1_34
    """The first Kubernetes version for which this kind of case is compared."""


SUBJECTS = {
    "alloc": Subject(draw_world, allocator.answer, allocator.agrees),
    "cel": Subject(draw_expression, cel.answer, cel.agrees),
    "tracker": Subject(taints.draw_history, taints.answer, taints.agrees),
    "prepare": Subject(preparations.draw_node, preparations.answer, preparations.agrees, "kubelet", V1_37),
    "validate": Subject(writes.draw_write, writes.answer, writes.agrees, "apiserver"),
}


_FAULTS = ("disagree", "crash")
_MORE_ANSWERS = 60


@dataclass(frozen=True)
class Comparison:
    """dralab's answer to a case, and the answers of the real code."""

    ours: JsonObject
    theirs: list[Any]
    # agree, disagree, crash (dralab raises an exception), panic, timeout, unsupported or refused.
    verdict: str


def compare(subject: Subject, upstream: Upstream, case: JsonObject, kubernetes: Version) -> Comparison:
    """Answer a case by dralab and by the real code, and compare."""
    try:
        theirs = upstream.answer(case)
    except ValueError as error:
        return Comparison({}, [str(error)], "refused")
    # Kubernetes 1.34's allocator panics for some cases. There is nothing to compare then, as after a timeout.
    for answer in theirs:
        for verdict in ("panic", "timeout"):
            if answer.get(verdict):
                return Comparison({}, theirs, verdict)
        if answer.get("supported") is False:
            return Comparison({}, theirs, "unsupported")
    try:
        ours = subject.answer({**case, "kubernetesVersion": str(kubernetes)})
    except Exception as error:
        return Comparison({"error": f"{type(error).__name__}: {error}"}, theirs, "crash")
    agree = any(subject.agrees(ours, answer) for answer in theirs)
    # Go iterates over maps in random order, so for a case with several errors the real code may report another one
    # the next time.
    for _ in range(_MORE_ANSWERS):
        if agree:
            break
        answers = upstream.answer(case)
        if any(answer.get("panic") for answer in answers):
            return Comparison(ours, theirs, "panic")
        agree = any(subject.agrees(ours, answer) for answer in answers)
        theirs += [answer for answer in answers if answer not in theirs]
    return Comparison(ours, theirs, "agree" if agree else "disagree")


def run(name: str, kubernetes: Version, program: Path, seed: str, count: int, shrunk: int) -> bool:
    """Compare ``count`` cases, print the disagreements and a summary, and return True if all agree.

    The first ``shrunk`` disagreements are made as small as possible.
    """
    subject = SUBJECTS[name]
    verdicts: Counter[str] = Counter()
    with Upstream(program, name) as upstream:
        for number in range(count):
            case = subject.draw(f"{seed}-{number}", kubernetes)
            found = compare(subject, upstream, case, kubernetes)
            verdicts[found.verdict] += 1
            if found.verdict not in _FAULTS:
                continue
            if verdicts[found.verdict] <= shrunk:
                case = _shrunk(subject, upstream, case, kubernetes, found.verdict)
                found = compare(subject, upstream, case, kubernetes)
            print(
                json.dumps({"in": case, "out": found.theirs[0], "outcomes": found.theirs, "ours": found.ours})
            )
    summary = {
        "subject": name,
        "kubernetesVersion": str(kubernetes),
        "seed": seed,
        "cases": count,
        **verdicts,
    }
    print(json.dumps(summary), file=sys.stderr)
    return not any(verdicts[fault] for fault in _FAULTS)


def _shrunk(
    subject: Subject, upstream: Upstream, case: JsonObject, kubernetes: Version, verdict: str
) -> JsonObject:
    """Shrink the case as far as it still has the same verdict and the same top-level fields."""

    def fails(smaller: JsonObject) -> bool:
        return (
            smaller.keys() == case.keys()
            and compare(subject, upstream, smaller, kubernetes).verdict == verdict
        )

    return shrink(case, fails)


def _list_subjects(kubernetes: Version) -> list[str]:
    """Return the names of the subjects that can be compared with the version."""
    return [
        name
        for name, one in SUBJECTS.items()
        if one.since <= kubernetes and (one.program != "kubelet" or not kubernetes.is_preview)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison that the command line asks for. Return 1 if an answer of dralab differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.compare", description=__doc__)
    parser.add_argument("subject", nargs="*", help="alloc, cel, tracker, prepare or validate (all)")
    parser.add_argument(
        "--version",
        action="append",
        help="a Kubernetes version to compare with; may be repeated (default: all released ones)",
    )
    parser.add_argument("--seed", default="1", help="the seed from which the cases are drawn (1)")
    parser.add_argument("--count", type=int, default=1000, help="cases of each subject and version")
    parser.add_argument(
        "--shrink", type=int, default=5, help="how many disagreements to shrink to a minimal case"
    )
    parser.add_argument(
        "--programs", type=Path, help="the folder for the compiled programs (a temporary one)"
    )
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="only compile the programs, into FOLDER")
    options = parser.parse_args(arguments)
    # Log errors alone, so that nothing is mixed into the disagreements on standard output.
    configure("compare", "error")
    for name in options.subject:
        if name not in SUBJECTS:
            parser.error(f"unknown subject {name!r}: choose {', '.join(SUBJECTS)}")
    released = [version for version in VERSIONS if not version.is_preview]
    versions = [Version.parse(text) for text in options.version or ()] or released
    if options.build is not None:
        for kubernetes in versions:
            for source in dict.fromkeys(SUBJECTS[name].program for name in _list_subjects(kubernetes)):
                print(build(kubernetes, options.build, source))
        return 0
    agree = True
    with tempfile.TemporaryDirectory() as temporary:
        for kubernetes in versions:
            for name in options.subject or _list_subjects(kubernetes):
                program = build(kubernetes, options.programs or Path(temporary), SUBJECTS[name].program)
                agree &= run(name, kubernetes, program, options.seed, options.count, options.shrink)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
