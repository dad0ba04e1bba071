"""The feature gates and their defaults, from the table that the services use."""

import re
from pathlib import Path

from dra_shared.serviceversions import LAB_GATES
from dra_shared.version import DEFAULT, release

from tools.reference.markdown import Page, code, table

_ROOT = Path(__file__).parents[2]
_SOURCES = ("shared", "services", "toolkit", "cli")
# A resource, features that nodes declare, NVIDIA's drivers' gates: the code has these names for something else.
_OTHER_MEANINGS = {
    "ContextualLogging",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeAttributesClass",
}


def table_of_gates() -> str:
    """Return the table of the gates that the code asks about, for docs/configuration.md."""
    gates = release(DEFAULT).gates
    sources = (path for folder in _SOURCES for path in (_ROOT / folder).rglob("*.py"))
    names = {name for path in sources for name in re.findall(r'"([A-Z]\w+)"', path.read_text())}
    rows = [
        [
            code(name),
            gate.stage,
            ("on" if gate.default else "off") + (", locked" if gate.locked else ""),
            "yes" if LAB_GATES.get(name) else "",
        ]
        for name, gate in gates.items()
        if name in names - _OTHER_MEANINGS
    ]
    return table(["gate", "stage", "default", "turned on by `dralab up`"], rows)


def page() -> Page:
    """Return the page of all gates of the followed Kubernetes version."""
    on_in_up = {name for name, on in LAB_GATES.items() if on}
    rows = [
        [
            code(name),
            gate.stage,
            "on" if gate.default else "off",
            "yes" if gate.locked else "",
            ", ".join(code(other) for other in gate.needs),
            "yes" if name in on_in_up else "",
        ]
        for name, gate in release(DEFAULT).gates.items()
    ]
    return Page(
        "reference/feature-gates.md",
        "Feature gates",
        "Every gate that `--feature-gates` takes. Those that change something: "
        "[Configuration](../configuration.md#feature-gates).",
        table(["gate", "stage", "default", "locked", "needs", "on with `dralab up`"], rows),
    )
