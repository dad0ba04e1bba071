"""Tables of faults, GPU models and lessons."""

from collections.abc import Callable, Mapping
from functools import partial

from dra_lab.learn.lesson import lessons
from dra_node_agent.nvml.model import known_models, load_model
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import SimulatedGpu
from dra_shared.faults.catalog import KINDS

from tools.reference.arguments import add_links
from tools.reference.markdown import code, table


def tables() -> Mapping[str, Callable[[], str]]:
    """Return the tables by name."""
    return {
        "faults of requests": partial(_faults, "requests"),
        "faults of processes": partial(_faults, "process", "scheduling"),
        "faults of nodes": partial(_faults, "node"),
        "GPU models": _models,
        "lessons": _lessons,
    }


def _faults(*places: str) -> str:
    rows = [
        [code(kind.name), add_links(kind.what), ", ".join(code(flag.name) for flag in kind.flags)]
        for kind in KINDS.values()
        if kind.where in places
    ]
    return table(["fault", "what happens", "options"], rows)


def _models() -> str:
    rows = []
    for name in known_models():
        model = load_model(name)
        like = SimulatedGpu(0, model, "")
        profiles = dict.fromkeys(profile_name(like, profile) for profile in model.mig_profiles)
        rows.append(
            [
                code(name),
                ", ".join(map(code, model.aliases)),
                model.architecture,
                ", ".join(profiles) or "none",
            ]
        )
    return table(["model", "aliases", "architecture", "MIG profiles"], rows)


def _lessons() -> str:
    return table(["", "lesson", "about"], ([str(one.number), code(one.name), one.title] for one in lessons()))
