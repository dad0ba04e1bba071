"""Feature gates of one version of Kubernetes (``k8s.io/component-base/featuregate/feature_gate.go``).

Gates that dralab does not use are accepted without effect.
"""

from collections.abc import Iterable, Iterator, Mapping

from dra_shared.quoting import go_quote
from dra_shared.version import DEFAULT, Gate, Version, release

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
# AllAlpha and AllBeta set every gate of a stage, except gates that are also set by name.
_STAGES = {"AllAlpha": "Alpha", "AllBeta": "Beta"}


class FeatureGates:
    """The enabled features of one ``version`` of Kubernetes. Immutable."""

    def __init__(self, version: Version = DEFAULT, /, **overrides: bool) -> None:
        self.version = version
        self._gates = {**_defaults(version), **overrides}
        self._known = frozenset(self._gates)
        on = (name for name, on in self._gates.items() if on)
        self._on = release(version).always_on.union(on)
        # The hash is cached because every create uses it, and there are more than a hundred gates.
        self._hash = hash((version, frozenset(self._gates.items())))

    @classmethod
    def parse(cls, text: str, version: Version = DEFAULT) -> "FeatureGates":
        """Parse gates like ``A=true,B=false``, as in Kubernetes' ``--feature-gates``.

        Raises:
            ValueError: an entry is malformed, a gate does not exist or is locked, or it depends on another
                that is off.
        """
        known = release(version).gates
        wanted = read(text, version)
        errors = [
            f"cannot set feature gate {name} to {_text(on)}, feature is locked to {_text(not on)}"
            for name, on in wanted.items()
            if name in known and known[name].locked and known[name].default != on
        ]
        # A gate's own name takes precedence over its stage.
        own = {name: on for name, on in wanted.items() if name in known}
        gates = cls(version, **{**_of_stages(wanted, known), **own})
        errors = errors or gates.find_unmet()
        if errors:
            raise ValueError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        return gates

    def find_unmet(self) -> list[str]:
        """Return a message for each enabled gate that depends on disabled gates."""
        off = {
            name: [other for other in gate.needs if not self._gates[other]]
            for name, gate in release(self.version).gates.items()
            if self._gates[name]
        }
        return [
            f"{name} is enabled, but depends on features that are disabled: [{' '.join(needs)}]"
            for name, needs in off.items()
            if needs
        ]

    def enabled(self, name: str) -> bool:
        """True if the gate is on, or was removed because its feature is always on. An unknown gate is off."""
        return name in self._on

    def all_enabled(self, names: Iterable[str]) -> bool:
        """True if all of these gates are on."""
        return self._on.issuperset(names)

    def has(self, names: Iterable[str]) -> bool:
        """True if the version has all of these gates, on or off."""
        return self._known.issuperset(names)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the gates that are on."""
        return (name for name, on in self._gates.items() if on)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureGates):
            return False
        return (self.version, self._gates) == (other.version, other._gates)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return ",".join(f"{name}={_text(on)}" for name, on in sorted(self._gates.items()))


def read(text: str, version: Version = DEFAULT) -> dict[str, bool]:
    """Parse gates for a ``version`` of Kubernetes.

    Raises:
        ValueError: an entry is malformed, or a gate does not exist.
    """
    wanted: dict[str, bool] = {}
    for entry in filter(None, text.split(",")):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        if value not in _TRUE | _FALSE:
            problem = f"strconv.ParseBool: parsing {go_quote(value)}: invalid syntax"
            raise ValueError(f"invalid value of {name}={value}, err: {problem}")
        wanted[name] = value in _TRUE
    for name in wanted:
        if name not in release(version).gates and name not in _STAGES:
            raise ValueError(f"unrecognized feature gate: {name}")
    return wanted


def with_defaults(defaults: Mapping[str, bool], text: str, version: Version = DEFAULT) -> str:
    """Add default gates to the text, unless it turns off a gate that they depend on.

    Defaults of gates that ``version`` does not have, or that have this value already, are left out.

    Raises:
        ValueError: the errors of :func:`read`.
    """
    wanted = read(text, version)
    known = release(version).gates
    defaults = {name: on for name, on in defaults.items() if name in known and known[name].default != on}
    off = {name for name, on in wanted.items() if not on}
    off |= {name for name, on in _of_stages(wanted, known).items() if not on and name not in wanted}
    while True:
        kept = {
            name: on
            for name, on in defaults.items()
            if name not in wanted and name not in off and not off.intersection(known[name].needs)
        }
        dropped = {name for name in defaults if name not in kept and name not in wanted} - off
        if not dropped:
            return ",".join([*(f"{name}={_text(on)}" for name, on in kept.items()), *filter(None, [text])])
        # Gates that depend on a disabled gate cannot be on either.
        off |= dropped


def _defaults(version: Version) -> dict[str, bool]:
    return {name: gate.default for name, gate in release(version).gates.items()}


def _of_stages(wanted: Mapping[str, bool], known: Mapping[str, Gate]) -> dict[str, bool]:
    stages = {_STAGES[name]: on for name, on in wanted.items() if name in _STAGES}
    return {
        name: stages[gate.stage] for name, gate in known.items() if gate.stage in stages and not gate.locked
    }


def _text(on: bool) -> str:
    return str(on).lower()
