"""Objects in another version: rejected, without some of their fields, with other defaults, or with warnings.

The results of two API servers are compared (``dra_apiserver.verdict``), so that problems in both versions are
reported separately.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dra_apiserver.verdict import Judge, Place, Verdict, is_known_to_any
from dra_shared import classic
from dra_shared.classic.kinds import successor
from dra_shared.classic.notes import Outcome
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version, release

from dra_worlds.check.finding import DROPPED, OTHERWISE, REFUSED, WARNED, Finding


def converted_version(obj: JsonObject) -> str:
    """Return the apiVersion that the object is converted to; empty if a new apiVersion is all that changes."""
    for made in classic.convert([obj]).objects:
        if made["kind"] == obj["kind"]:
            return "" if _content(made) == _content(obj) else str(made["apiVersion"])
    return ""


def command(where: str) -> str:
    """Return the command line that converts the manifest at ``where``."""
    file = where.rpartition(":")[0]
    return f"`dralab convert {'-' if file == 'standard input' else file or 'FILE'}`"


def _content(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "metadata", "status")}


def successor_advice(obj: JsonObject, where: str) -> str:
    """Return the successor of a kind of the older DRA APIs, and how to convert it. Return "" for other kinds."""
    if not str(obj["apiVersion"]).startswith("resource.k8s.io/"):
        return ""
    became = successor(obj)
    return f"{became}: use {command(where)}" if became else ""


def moves(obj: JsonObject, path: str) -> bool:
    """True if `dralab convert` moves the field or its content to another place."""
    notes = classic.convert([obj]).notes
    return any(note.outcome is Outcome.MOVED and _is_within(note.path, path) for note in notes)


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


_TEMPLATE = "ResourceClaimTemplate"


class Checker:
    """Compares an API server of the current version with one of the other version, and collects findings for
    each object.

    Both have the same ``runtime_config``. ``namespaces`` are the namespaces among the objects, by name.
    """

    def __init__(
        self,
        now: FeatureGates,
        then: FeatureGates,
        runtime_config: str,
        namespaces: Mapping[str, JsonObject],
    ) -> None:
        self._namespaces = namespaces
        self._now = Judge(now, runtime_config, namespaces)
        self._then = Judge(then, runtime_config, namespaces)
        self._runtime_config = runtime_config
        self._others: dict[str, Judge] = {}
        self.unknown: dict[str, None] = {}

    @property
    def against(self) -> Version:
        """The other version."""
        return self._then.gates.version

    def place(self, api_version: str, kind: str) -> Place:
        """Return how the other version serves the kind."""
        return self._then.place(api_version, kind)

    def findings(self, obj: JsonObject, where: str = "") -> Iterator[Finding]:
        """Yield the changes for an object. An object with a uid is stored by a server; any other is a manifest."""
        api_version, kind = str(obj["apiVersion"]), str(obj["kind"])
        subject = _subject(obj)
        now, then = self._now.place(api_version, kind), self._then.place(api_version, kind)
        stored = bool((obj.get("metadata") or {}).get("uid"))
        anywhere = now.known or then.known or then.elsewhere
        if not anywhere and (stored or not is_known_to_any(api_version, kind)):
            advice = successor_advice(obj, where)
            if advice:
                text = _no_match(api_version, kind)
                yield Finding(REFUSED, "object", subject, text, advice, where, before=True)
            else:
                self.unknown[f"{kind} ({api_version})"] = None
            return
        if stored and (lost := self._storage_problem(api_version, kind)):
            yield Finding(REFUSED, "object", subject, lost, "delete it before, and create it again", where)
        elif not stored and not then.served:
            text, advice = _no_match(api_version, kind), self._way(obj, then, where)
            yield Finding(REFUSED, "object", subject, text, advice, where, not now.served)
        if not stored and then.served and then.deprecated != now.deprecated:
            yield from self._deprecations(obj, then, subject, where)
        if then.known:
            yield from self._compare_verdicts(obj, subject, where, stored, now.known)

    def _deprecations(self, obj: JsonObject, then: Place, subject: str, where: str) -> Iterator[Finding]:
        if then.deprecated:
            newer = next((one for one in then.elsewhere if one != obj["apiVersion"]), "")
            advice = _newer(obj, newer, where) if newer else ""
            yield Finding(WARNED, "object", subject, then.deprecated, advice, where)

    def _storage_problem(self, api_version: str, kind: str) -> str:
        written = self._now.storage_version(api_version, kind)
        if not written or self._then.can_read(written, kind):
            return ""
        return f"it is stored as {written}, which {self.against} cannot read"

    def _way(self, obj: JsonObject, place: Place, where: str) -> str:
        api_version = str(obj["apiVersion"])
        if place.elsewhere:
            return _newer(obj, place.elsewhere[0], where)
        if not place.versions:
            return f"{self.against} has no such kind"
        there = api_version if place.known else place.versions[0]
        gated = place.gate and not self._then.gates.enabled(place.gate)
        options = f"--feature-gates={place.gate}=true " if gated else ""
        options += f"--runtime-config={there}=true"
        return options if place.known else f"{_newer(obj, there, where)}, with {options}"

    def _compare_verdicts(
        self, obj: JsonObject, subject: str, where: str, stored: bool, known: bool
    ) -> Iterator[Finding]:
        then = _judge(self._then, obj, stored)
        now = _judge(self._now, obj, stored) if known else Verdict()
        for text in then.refused:
            yield Finding(
                REFUSED, "object", subject, text, where=where, before=_is_rejected_already(text, now.refused)
            )
        for path in then.dropped:
            before = _is_in(path, now.dropped)
            moved = not stored and moves(obj, path)
            advice = f"use {command(where)}" if moved else self._gate_for(obj, stored, path)
            yield Finding(DROPPED, "object", subject, path, advice, where, before)
        for text in then.warnings:
            if text not in now.warnings:
                yield Finding(WARNED, "object", subject, text, where=where)
        if now.stored is not None and then.stored is not None and not stored:
            lost = [*now.dropped, *then.dropped]
            for path, text in _differences(now.stored, then.stored, ""):
                if not _is_in(path, lost) and not any(one.startswith(f"{path}.") for one in lost):
                    yield Finding(OTHERWISE, "object", subject, f"{path}: {text}", where=where)
        yield from self._claims(obj, subject, where, stored, now.stored, then.stored)

    def _claims(
        self,
        obj: JsonObject,
        subject: str,
        where: str,
        stored: bool,
        now: JsonObject | None,
        then: JsonObject | None,
    ) -> Iterator[Finding]:
        """Yield the problems of claims from a template. A server may keep a template and reject its claims."""
        if then is None or (claim := _claim_from(then)) is None:
            return
        verdict = self._then.create(claim)
        today = _claim_from(now) if now is not None else None
        before = self._now.create(today) if today is not None else Verdict()
        for text in verdict.refused:
            advice = self._gate_that_takes(obj, stored)
            found = f"its claims: {text}"
            yield Finding(
                REFUSED, "object", subject, found, advice, where, _is_rejected_already(text, before.refused)
            )
        for path in verdict.dropped:
            advice = self._gate_for(claim, False, path)
            found = f"its claims: {path}"
            yield Finding(DROPPED, "object", subject, found, advice, where, _is_in(path, before.dropped))

    def _gate_that_takes(self, template: JsonObject, stored: bool) -> str:
        """Return the option for a gate with which the template's claims are accepted, or "" if there is none."""
        for name in self._gates_off():
            judge = self._with(name)
            kept = _judge(judge, template, stored).stored
            claim = _claim_from(kept) if kept is not None else None
            if claim is not None and not judge.create(claim).refused:
                return f"--feature-gates={name}=true"
        return ""

    def _gate_for(self, obj: JsonObject, stored: bool, path: str) -> str:
        """Return the option for the gate that keeps the field, or an error.

        Of several gates, take the one that depends on the fewest others.
        """
        for name in self._gates_off():
            if path not in _judge(self._with(name), obj, stored).dropped:
                return f"--feature-gates={name}=true"
        return f"{self.against} does not have the field"

    def _gates_off(self) -> list[str]:
        """Return the gates of the other version that could be turned on. Gates that depend on few others come first."""
        gates = self._then.gates
        off = [
            name
            for name, gate in release(gates.version).gates.items()
            if not (gates.enabled(name) or gate.locked or gate.stage == "Deprecated")
        ]
        return sorted(off, key=lambda name: len(_with_dependencies(gates.version, name)))

    def _with(self, name: str) -> Judge:
        """Return the other version with one more gate and the gates that it depends on."""
        if name not in self._others:
            gates = self._then.gates
            off = dict.fromkeys(self._gates_off(), False)
            on = off | dict.fromkeys((*gates, *_with_dependencies(gates.version, name)), True)
            judge = Judge(FeatureGates(gates.version, **on), self._runtime_config, self._namespaces)
            self._others[name] = judge
        return self._others[name]


def _judge(judge: Judge, obj: JsonObject, stored: bool) -> Verdict:
    # Drivers publish their slices again, and claims are created again, so the rules for new objects apply. Only
    # templates stay as they are.
    created_again = str(obj["apiVersion"]).startswith("resource.k8s.io/") and obj["kind"] != _TEMPLATE
    stored = stored and not created_again
    return judge.keep(obj) if stored else judge.create(obj)


def _is_rejected_already(text: str, refused: Iterable[str]) -> bool:
    """True if the current version rejects the same field, even with another message."""
    at = text.partition(": ")[0]
    return any(one == text or one.partition(": ")[0] == at for one in refused)


def _is_in(path: str, dropped: Iterable[str]) -> bool:
    """True if the field is dropped, either itself or because an outer field is dropped."""
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in dropped)


def _claim_from(template: JsonObject) -> JsonObject | None:
    """Return a claim as the claim controller creates it from a stored template, or None for other objects."""
    group, _, version = str(template["apiVersion"]).partition("/")
    if (group, template["kind"]) != ("resource.k8s.io", _TEMPLATE):
        return None
    meta, content = template["metadata"], template["spec"]
    given = content.get("metadata") or {}
    copied = {name: given[name] for name in ("labels", "annotations") if name in given}
    return {
        "apiVersion": f"{group}/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": meta.get("name", ""), "namespace": meta.get("namespace", "default"), **copied},
        "spec": content["spec"],
    }


def _with_dependencies(version: Version, name: str) -> set[str]:
    """Return the gate and all gates that it needs."""
    known = release(version).gates
    on, wanted = {name}, [name]
    while wanted:
        needs = [other for other in known[wanted.pop()].needs if other not in on]
        on.update(needs)
        wanted += needs
    return on


def _differences(now: Any, then: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(now, dict) and isinstance(then, dict):
        for name in dict.fromkeys([*now, *then]):
            if not (path == "" and name in ("metadata", "status")):
                yield from _differences(now.get(name), then.get(name), f"{path}.{name}".lstrip("."))
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for position, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from _differences(one, other, f"{path}[{position}]")
    elif now != then and (now or then):
        yield path, f"{_format(then)}, and {_format(now)} today"


def _no_match(api_version: str, kind: str) -> str:
    return f'no matches for kind "{kind}" in version "{api_version}"'


def _newer(obj: JsonObject, api_version: str, where: str) -> str:
    """Advise ``api_version``, and `dralab convert` if the object has another shape there."""
    if converted_version(obj) == api_version:
        return f"use {command(where)}, which makes it {api_version}"
    return f"use apiVersion: {api_version}"


def _format(value: Any) -> str:
    return "absent" if value is None else str(value)


def _subject(obj: JsonObject) -> str:
    meta = obj.get("metadata") or {}
    name = str(meta.get("name") or f"{meta.get('generateName', '')}…")
    namespace = meta.get("namespace")
    return f"{obj['kind']} {namespace}/{name}" if namespace else f"{obj['kind']} {name}"
