"""The feature gates and their defaults, from the table that the services use."""

from dra_shared.serviceversions import LAB_GATES
from dra_shared.version import DEFAULT, release

from tools.reference.markdown import Page, code, table


def page() -> Page:
    """All gates of the Kubernetes that is followed."""
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
        "Every gate that `--feature-gates` takes. Those that dralab asks about, and what each does: "
        "[Configuration](../configuration.md#feature-gates).",
        table(["gate", "stage", "default", "locked", "needs", "on with `dralab up`"], rows),
    )
