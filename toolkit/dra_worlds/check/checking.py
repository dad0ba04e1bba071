"""All checks of one subject against another version."""

from collections.abc import Iterator

from dra_kube.progress import Progress
from dra_scheduler.plan.setup import keep_accepted
from dra_shared.errors import UserError
from dra_shared.features import FeatureGates
from dra_shared.log import configure
from dra_shared.version import Version

from dra_worlds.check import gates, pods, writers
from dra_worlds.check.finding import Finding, Report, sort_findings
from dra_worlds.check.objects import Checker
from dra_worlds.check.reading import Subject
from dra_worlds.reading import world


def report(
    subject: Subject, against: Version, gates_then: dict[str, bool], runtime_config: str, *, with_pods: bool
) -> Report:
    """Return what changes with the version ``against``.

    In that version, ``gates_then`` are set in addition to the current gates that it accepts.

    Raises:
        UserError: ``gates_then`` cannot be set, or ``runtime_config`` is malformed.
    """
    now = FeatureGates(subject.version, **subject.gates)
    then = _then(keep_accepted(subject.gates, against) | gates_then, against)
    set_now = {
        name: on for name, on in subject.gates.items() if name not in gates_then and name not in subject.own
    }
    found = list(gates.findings(set_now, subject.version, against))
    objects = list(subject.objects())
    namespaces = {obj["metadata"]["name"]: obj for obj, _ in objects if obj["kind"] == "Namespace"}
    try:
        checker = Checker(now, then, runtime_config, namespaces)
    except ValueError as error:
        raise UserError(str(error), 2) from error
    with Progress("checked", len(objects)) as progress:
        for obj, where in objects:
            found += checker.findings(obj, where)
            progress.step()
    found += writers.findings((obj for obj, _ in objects), against, checker.place)
    checked = {"objects": len(objects)}
    if with_pods:
        checked["pods placed again"], changed = _pods(subject, now, then, gates_then)
        found += changed
    return Report(
        current=str(subject.version),
        against=str(against),
        checked=checked,
        unknown=tuple(sorted(checker.unknown)),
        findings=sort_findings(found),
    )


def _then(wanted: dict[str, bool], against: Version) -> FeatureGates:
    text = ",".join(f"{name}={str(on).lower()}" for name, on in wanted.items())
    try:
        return FeatureGates.parse(text, against)
    except ValueError as error:
        raise UserError(str(error), 2) from error


def _pods(
    subject: Subject, now: FeatureGates, then: FeatureGates, gates_then: dict[str, bool]
) -> tuple[int, Iterator[Finding]]:
    # Hide the scheduler's logs: standard output is for the answer.
    configure("check", "error", final=False)
    objects = world(subject.documents, subject.problems)
    if not subject.gates_reported:
        now = objects.gates(subject.gates, now.version)
        needed = {need.gate: True for need in objects.needs(subject.gates, now.version)}
        on = keep_accepted(subject.gates | needed, then.version) | gates_then
        then = FeatureGates(then.version, **on)
    return pods.findings(objects, now, then)
