"""Random requests to write objects of resource.k8s.io, and the comparison of the responses.

A case has the form of the recorded cases of ``dralab conformance validate``. This comparison is stricter: texts of
errors, warnings and the stored object must be equal, too.
"""

import copy
import re
from collections import Counter
from typing import Any

from dra_recordings import validate
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_36, V1_37, Version, release

from tools.compare.draw import Draw
from tools.compare.mutations import mutate
from tools.compare.objects import convert_to_v1beta1, draw_object, draw_status

_KINDS = ("ResourceClaim", "ResourceClaim", "ResourceSlice", "ResourceSlice", "ResourceClaimTemplate")
_RARE_KINDS = ("DeviceClass", "DeviceTaintRule", "ResourcePoolStatusRequest")
_USER = {"name": "alice", "groups": ["system:authenticated"]}
# In dralab, 1.34 has the texts of later releases for these errors.
_TEXTS_OF_1_34 = (
    (re.compile(r"(must be no more than \d+) characters"), r"\1 bytes"),
    (re.compile("a qualified name must consist"), "a valid label key must consist"),
)
# cel-go adds this line to a syntax error that is followed by more than 256 tokens.
_LOOKAHEAD = re.compile(r"ERROR: <input>:-1:0: error recovery token lookahead limit exceeded: 256\n")
_CONDITION = {
    "type": "EvictionInProgress",
    "status": "True",
    "reason": "PodsPending",
    "message": "3",
    "lastTransitionTime": "2024-05-06T07:08:09Z",
}


def draw_write(seed: str, kubernetes: Version) -> JsonObject:
    """Return the write request that is drawn from a seed."""
    return _Write(Draw(f"{kubernetes} write {seed}"), kubernetes).draw(seed)


class _Write:
    def __init__(self, draw: Draw, kubernetes: Version) -> None:
        self._draw = draw
        self._kubernetes = kubernetes

    def draw(self, name: str) -> JsonObject:
        draw = self._draw
        rare = _RARE_KINDS if self._kubernetes >= V1_36 else _RARE_KINDS[:-1]
        kind = draw.pick(_KINDS) if draw.chance(0.7) else draw.pick(rare)
        obj = draw_object(kind, draw, self._kubernetes)
        case: JsonObject = {
            "name": name,
            "operation": draw.pick(("create", "create", "update")),
            "featureGates": self._gates(),
            "namespaces": [self._namespace()] if draw.chance(0.9) else [],
            "user": _USER,
            "object": obj,
        }
        if kind == "ResourceClaim" and draw.chance(0.5):
            case["operation"] = "statusUpdate"
            if draw.chance(0.3):
                case["authorizationChecks"] = self._checks()
        elif kind == "DeviceTaintRule" and self._kubernetes >= V1_35 and draw.chance(0.3):
            case["operation"] = "statusUpdate"
        changes = draw.pick((0, 1, 1, 1, 2, 3))
        if case["operation"] != "create":
            case["oldObject"] = self._old(case)
            case["object"] = self._new(case)
        for _ in range(changes):
            case["object"] = mutate(case["object"], draw, case["operation"] != "create")
        self._choose_version(case)
        return case

    def _gates(self) -> JsonObject:
        """Return a value for each unlocked DRA gate. A gate is off if a gate that it depends on is off."""
        draw = self._draw
        known = release(self._kubernetes).gates
        # dralab follows hand-written validation until 1.36, as these releases do by default.
        names = ["DeclarativeValidationBeta"] if self._kubernetes >= V1_37 else []
        names += [name for name, gate in known.items() if name.startswith("DRA") and not gate.locked]
        kind = draw.number(0, 9)
        chosen = {}
        for name in names:
            on = True if kind < 5 else known[name].default
            if kind >= 7 and draw.chance(0.3):
                on = not on
            chosen[name] = on
        everything = {name: gate.default for name, gate in known.items()} | chosen
        # Repeat, because dependencies can have dependencies.
        for _ in names:
            for name in names:
                if not all(everything[needed] for needed in known[name].needs):
                    chosen[name] = everything[name] = False
        return chosen

    def _namespace(self) -> JsonObject:
        labels = self._draw.pick(({}, {"resource.kubernetes.io/admin-access": "true"}))
        return {"metadata": {"name": "default", "labels": labels}}

    def _checks(self) -> list[JsonObject]:
        draw = self._draw
        check: JsonObject = {"resource": "resourceclaims", "allowed": False, "reason": draw.pick(("", "no"))}
        if draw.chance(0.5):
            return [{**check, "verb": "update", "subresource": "binding", "name": ""}]
        return [
            {**check, "verb": "arbitrary-node:update", "subresource": "driver", "name": "gpu.example.com"}
        ]

    def _old(self, case: JsonObject) -> JsonObject:
        """Return the stored object that the request updates. Sometimes its spec is invalid, as from an older server.

        Metadata is always valid, because its rules never became stricter.
        """
        draw = self._draw
        old: JsonObject = copy.deepcopy(case["object"])
        if old["kind"] == "ResourceClaim":
            old["status"] = draw_status(old, draw, self._kubernetes)
            if draw.chance(0.3):
                old["status"] = mutate({"status": old["status"]}, draw, True).get("status", {})
        # Stored taints always have a time, because the server sets it.
        for holder in (
            (old["spec"], *old["spec"].get("devices", ())) if old["kind"] != "ResourceClaim" else ()
        ):
            for taint in (*holder.get("taints", ()), *([holder["taint"]] if "taint" in holder else [])):
                taint.setdefault("timeAdded", "2024-05-06T07:08:09Z")
        if draw.chance(0.4) and case["operation"] == "update":
            old["spec"] = mutate({"spec": old["spec"]}, draw, True).get("spec", {})
        return old

    def _new(self, case: JsonObject) -> JsonObject:
        draw = self._draw
        new: JsonObject = copy.deepcopy(case["oldObject"])
        if case["operation"] == "update" and draw.chance(0.3):
            other = draw_object(new["kind"], draw, self._kubernetes)
            new["spec"] = other["spec"]
        elif case["operation"] == "statusUpdate" and new["kind"] == "ResourceClaim" and draw.chance(0.6):
            new["status"] = draw_status(case["object"], draw, self._kubernetes)
        elif case["operation"] == "statusUpdate" and new["kind"] == "DeviceTaintRule":
            new["status"] = {"conditions": [_CONDITION]}
        # Kinds that do not allow unconditional updates require a resourceVersion.
        new["metadata"]["resourceVersion"] = "1"
        return new

    def _choose_version(self, case: JsonObject) -> None:
        kind = case["object"]["kind"]
        for field in ("object", "oldObject"):
            if field not in case:
                continue
            versions = self._versions(kind)
            version = self._draw.pick(versions) if field == "object" else versions[0]
            obj = case[field]
            if version == "v1beta1" and kind != "DeviceTaintRule":
                try:
                    obj = convert_to_v1beta1(obj)
                except (AttributeError, KeyError, TypeError):
                    version = versions[0]
            case[field] = {"apiVersion": f"resource.k8s.io/{version}", **obj}

    def _versions(self, kind: str) -> tuple[str, ...]:
        served = release(self._kubernetes)
        resource = {"DeviceClass": "deviceclasses"}.get(kind, f"{kind.lower()}s")
        found = [
            version
            for version in ("v1", "v1beta2", "v1beta1", "v1alpha3")
            if served.serves(f"resource.k8s.io/{version}", resource)
        ]
        known = {
            "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
            "ResourcePoolStatusRequest": ("v1alpha3",),
        }.get(kind, ("v1", "v1beta2", "v1beta1"))
        return tuple(version for version in found if version in known) or ("v1",)


def answer(case: JsonObject) -> JsonObject:
    """Return dralab's response to the request. Gates that the case does not name have the version's defaults."""
    gates = release(Version.parse(case["kubernetesVersion"])).gates
    named = {name: gate.default for name, gate in gates.items()} | case.get("featureGates", {})
    return validate.answer({**case, "featureGates": named, "generalChecks": True})


def agrees(ours: JsonObject, theirs: JsonObject) -> bool:
    """True if both responses are the same, except for times that a server sets and texts of the decoder."""
    if "oracleError" in ours or "oracleError" in theirs:
        return "oracleError" in ours and "oracleError" in theirs
    mine, real = ours["server"], theirs["server"]
    if mine["allowed"] != real["allowed"] or _errors(mine) != _errors(real):
        return False
    if not mine["allowed"]:
        return True
    same_warnings = (mine.get("warnings") or []) == (real.get("warnings") or [])
    return same_warnings and _comparable(mine["object"]) == _comparable(real["object"])


def _errors(server: JsonObject) -> Counter[tuple[str, str, str]]:
    return Counter((error["type"], error["field"], _modernize(error["body"])) for error in server["errors"])


def _modernize(text: str) -> str:
    text = _LOOKAHEAD.sub("", text)
    for pattern, replacement in _TEXTS_OF_1_34:
        text = pattern.sub(replacement, text)
    return text


def _comparable(value: Any) -> Any:
    """Return the value without nulls, which only 1.34 encodes, and with one fixed time for all times of the server.

    The server sets the time of a taint to its own.
    """
    if isinstance(value, dict):
        return {
            key: _comparable(item) if key != "timeAdded" or str(item).startswith("2024-05-06") else "now"
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return value
