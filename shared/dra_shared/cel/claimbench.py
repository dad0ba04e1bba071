"""Try the requests of a claim that does not exist yet on the devices of a cluster.

For each request and each alternative, the report has the devices that pass the selectors of the class and of
the request, the selector that rejected each other device, and the attribute values among which each constraint
can choose. The scheduler decides which devices are free and which ones an allocation takes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from dra_shared.api.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
)
from dra_shared.cel.workbench import Candidate, CelAnswer, Finding, Problem, evaluate, value_of
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

_Place = tuple[str, str, str]


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """A selector of the request or of its class, and the number of devices that pass it."""

    of_class: bool
    expression: str
    problems: tuple[Problem, ...]
    matches: int


class Match(msgspec.Struct, frozen=True, rename="camel"):
    """The result for one device: for each selector, whether it passed, or the error of its evaluation."""

    driver: str
    pool: str
    node: str
    device: str
    matches: bool
    selectors: tuple[bool | str, ...]
    values: dict[str, str]


class RequestMatches(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a request, or of ``REQUEST/ALTERNATIVE``. ``problem`` says why no device can match."""

    name: str
    device_class: str
    mode: str
    count: int
    problem: str = ""
    selectors: tuple[Selector, ...] = ()
    devices: int = 0
    matches: int = 0
    findings: tuple[Match, ...] = ()


class ConstraintValues(msgspec.Struct, frozen=True, rename="camel"):
    """The values of the attribute that a constraint compares.

    ``values`` has the number of matching devices by value, ``without`` the number of devices that lack the
    attribute.
    """

    attribute: str
    distinct: bool
    requests: tuple[str, ...]
    values: dict[str, int]
    without: int


class ClaimAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The results of all requests, in order, and of all constraints, with the claim.

    ``problem`` says why a manifest cannot be read.
    """

    requests: tuple[RequestMatches, ...] = ()
    constraints: tuple[ConstraintValues, ...] = ()
    problem: str = ""
    claim: JsonObject = {}


def examine(
    claim: DeviceClaim,
    classes: Mapping[str, DeviceClass],
    candidates: Sequence[Candidate],
    features: FeatureGates,
    most: int = 1000,
) -> ClaimAnswer:
    """Try the claim's requests on the devices.

    Each request reports at most ``most`` devices, those that pass the most selectors first.
    """
    trial = _Trial(candidates, features)
    requests, matching = [], {}
    for name, request in _requests(claim):
        report, found = _try_request(name, request, classes, trial)
        requests.append(_shorten(report, most))
        matching[name] = found
    constraints = tuple(_values(one, matching) for one in claim.constraints)
    return ClaimAnswer(tuple(requests), constraints)


class ClassMatches(msgspec.Struct, frozen=True, rename="camel"):
    """The positions of the devices that a class selects. ``problem`` says why they are not known."""

    name: str
    devices: tuple[int, ...]
    problem: str = ""


class ClassesAnswer(msgspec.Struct, frozen=True):
    """All devices, as DRIVER/POOL/DEVICE, and those that each class selects."""

    devices: tuple[str, ...]
    classes: tuple[ClassMatches, ...]


def select_by_class(
    classes: Mapping[str, DeviceClass], candidates: Sequence[Candidate], features: FeatureGates
) -> ClassesAnswer:
    """Try the selectors of each class on the devices. The results are sorted by class name."""
    trial = _Trial(candidates, features)
    found = []
    for name, one in sorted(classes.items()):
        tried = [trial.of(text) for text in _expressions(one.spec.selectors)]
        problem = next((each.message for report, _ in tried for each in report.problems), "")
        devices = () if problem else _find_passing(candidates, [by_place for _, by_place in tried])
        found.append(ClassMatches(name, devices, problem))
    names = tuple(f"{one.driver}/{one.pool}/{one.device.name}" for one in candidates)
    return ClassesAnswer(names, tuple(found))


def _find_passing(
    candidates: Sequence[Candidate], results: Sequence[Mapping[_Place, Finding]]
) -> tuple[int, ...]:
    return tuple(
        index
        for index, one in enumerate(candidates)
        if all(
            (found := by_place.get((one.driver, one.pool, one.device.name))) is not None
            and found.matches
            and not found.error
            for by_place in results
        )
    )


class _Trial:
    """Results of expressions on the devices, cached because requests share classes."""

    def __init__(self, candidates: Sequence[Candidate], features: FeatureGates) -> None:
        self.candidates = candidates
        self._features = features
        self._known: dict[str, tuple[CelAnswer, dict[_Place, Finding]]] = {}

    def of(self, expression: str) -> tuple[CelAnswer, dict[_Place, Finding]]:
        if expression not in self._known:
            report = evaluate(expression, self.candidates, self._features, len(self.candidates))
            by_place = {(one.driver, one.pool, one.device): one for one in report.findings}
            self._known[expression] = report, by_place
        return self._known[expression]


def _requests(claim: DeviceClaim) -> Iterator[tuple[str, ExactDeviceRequest | DeviceSubRequest]]:
    for request in claim.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative


def _try_request(
    name: str,
    request: ExactDeviceRequest | DeviceSubRequest,
    classes: Mapping[str, DeviceClass],
    trial: _Trial,
) -> tuple[RequestMatches, list[Candidate]]:
    mode = request.allocation_mode or "ExactCount"
    count = (request.count or 1) if mode == "ExactCount" else 0
    device_class = classes.get(request.device_class_name)
    if device_class is None:
        problem = f'device class "{request.device_class_name}" does not exist'
        return RequestMatches(name, request.device_class_name, mode, count, problem), []
    texts = [(True, text) for text in _expressions(device_class.spec.selectors)]
    texts += [(False, text) for text in _expressions(request.selectors)]
    results = [trial.of(text) for _, text in texts]
    findings, matching = [], []
    for candidate in trial.candidates:
        match = _match(candidate, [found for _, found in results])
        findings.append(match)
        if match.matches:
            matching.append(candidate)
    selectors = tuple(
        Selector(of_class, text, report.problems, report.matches)
        for (of_class, text), (report, _) in zip(texts, results, strict=True)
    )
    report = RequestMatches(
        name,
        request.device_class_name,
        mode,
        count,
        selectors=selectors,
        devices=len(findings),
        matches=len(matching),
        findings=tuple(findings),
    )
    return report, matching


def _expressions(selectors: Sequence[DeviceSelector]) -> list[str]:
    return [one.cel.expression for one in selectors if one.cel is not None]


def _match(candidate: Candidate, results: Sequence[Mapping[_Place, Finding]]) -> Match:
    place = candidate.driver, candidate.pool, candidate.device.name
    # An expression that does not compile has no findings.
    found = [result.get(place) for result in results]
    passed = tuple(False if one is None else one.error or one.matches for one in found)
    values = {name: value for one in found if one is not None for name, value in one.values.items()}
    driver, pool, device = place
    return Match(driver, pool, candidate.node, device, all(one is True for one in passed), passed, values)


def _shorten(report: RequestMatches, most: int) -> RequestMatches:
    # The nearest misses come first, because devices that the class rejects are the least interesting.
    ranked = sorted(report.findings, key=lambda one: -sum(each is True for each in one.selectors))
    return RequestMatches(
        report.name,
        report.device_class,
        report.mode,
        report.count,
        report.problem,
        report.selectors,
        report.devices,
        report.matches,
        tuple(ranked[:most]),
    )


def _values(constraint: DeviceConstraint, matching: Mapping[str, Sequence[Candidate]]) -> ConstraintValues:
    attribute = constraint.match_attribute or constraint.distinct_attribute or ""
    named = constraint.requests
    counts: Counter[str] = Counter()
    without = 0
    seen: set[_Place] = set()
    for name, candidates in matching.items():
        if named and not {name, name.partition("/")[0]}.intersection(named):
            continue
        for candidate in candidates:
            place = candidate.driver, candidate.pool, candidate.device.name
            if place in seen:
                continue
            seen.add(place)
            value = value_of(candidate, attribute)
            if value is None:
                without += 1
            else:
                counts[value] += 1
    distinct = constraint.match_attribute is None
    return ConstraintValues(attribute, distinct, named, dict(counts.most_common()), without)
