"""Feature gates in another version: gates that it rejects, and gates whose defaults change.

Mirrors ``k8s.io/component-base/featuregate/feature_gate.go``: the texts are the errors with which a component
exits.
"""

from collections.abc import Iterator, Mapping

from dra_shared.features import FeatureGates
from dra_shared.version import Gate, Version, release

from dra_worlds.check.finding import NOTED, REFUSED, Finding


def findings(now: Mapping[str, bool], current: Version, against: Version) -> Iterator[Finding]:
    """Yield the changes of the gates that are set ``now``, and of the defaults of others."""
    before, after = release(current).gates, release(against).gates
    for name, on in now.items():
        text = str(on).lower()
        gate = after.get(name)
        if gate is None:
            advice = f"leave {name} out of --feature-gates: {_fate(before.get(name), current, against)}"
            yield Finding(REFUSED, "gate", name, f"unrecognized feature gate: {name}", advice)
        elif gate.locked and gate.default != on:
            locked = (
                f"cannot set feature gate {name} to {text}, feature is locked to {str(gate.default).lower()}"
            )
            yield Finding(REFUSED, "gate", name, locked, f"leave {name} out of --feature-gates")
    there = {name: on for name, on in now.items() if name in after}
    for unmet in FeatureGates(against, **there).find_unmet():
        name = unmet.partition(" ")[0]
        yield Finding(REFUSED, "gate", name, unmet, "set those as well, or leave it out of --feature-gates")
    for name, gate in after.items():
        old = before.get(name)
        if name in now or old is None or old.default == gate.default:
            continue
        became = "on" if gate.default else "off"
        yield Finding(NOTED, "gate", name, f"{became} by default ({gate.stage}; it was {old.stage})")


def _fate(gate: Gate | None, current: Version, against: Version) -> str:
    if gate is None:
        return "neither version has it"
    if against < current:
        return f"{against} does not have it"
    if gate.stage == "GA" and gate.default:
        return "its feature is always on"
    return "it is gone"
