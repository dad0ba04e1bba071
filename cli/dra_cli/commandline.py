"""The command line's grammar: the list of commands, and how their words are parsed.

A command is a module of ``dra_cli.commands`` with two functions: ``options(parser)`` adds its options, and
``run(chosen)`` runs it. Only the module of the called command is imported.
"""

import argparse
import difflib
import importlib
import re
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from dra_shared.errors import UserError

from dra_cli import PROGRAM

# The least ratio of difflib for a suggestion: `lern` is close enough to `learn`.
_SIMILAR = 0.7
_INVALID_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<choices>.*)\)")
_UNKNOWN_OPTION = re.compile(r"unrecognized arguments: (?P<given>--[\w-]+)")
# Commands of kubectl that dralab lacks.
_OF_KUBECTL = frozenset(
    (
        *(
            "annotate",
            "api-resources",
            "api-versions",
            "attach",
            "auth",
            "autoscale",
            "cluster-info",
            "config",
        ),
        *("cp", "debug", "diff", "edit", "expose", "label", "patch", "port-forward", "proxy", "replace"),
        *("rollout", "scale", "set", "taint"),
    )
)
_AGO = re.compile(r"-\d+(\.\d+)?[dhms]").match

#: The description of each command, by the groups in ``dralab --help``.
GROUPS: dict[str, dict[str, str]] = {
    "Clusters": {
        "up": "Start a cluster and run it until Ctrl-C (or, detached, until `dralab down`).",
        "run": "Run a command with a cluster of its own: dralab run [OPTIONS] -- COMMAND.",
        "warm": "Run a command that starts many clusters: dralab warm -- COMMAND; each is ready in half the time.",
        "down": "Stop a cluster; its state stays for the next `up`.",
        "status": "Show a cluster's processes and whether each is ready.",
        "snapshot": "Save a whole cluster and restore it later: save, restore, list, delete.",
        "node": "Add, remove, cordon, uncordon or drain nodes, also while pods run.",
        "kubeconfig": "Print the path of a cluster's kubeconfig.",
        "certificates": "Print the Secrets of a control plane in a Kubernetes cluster.",
        "learn": "Learn DRA: ten lessons, each with a small cluster, a task and a check.",
        "console": "Open the console in the browser; with --kubeconfig for any cluster, read only.",
        "demo": "Start a cluster, run the quickstart through it, show each phase, and clean everything up.",
    },
    "Objects": {
        "apply": "Create or change the objects in manifests.",
        "create": "Create the objects in manifests, also with generateName; fail for objects that exist.",
        "convert": "Convert manifests of older DRA APIs to today's; report each field on standard error.",
        "get": "Show objects.",
        "describe": "Show objects in full, with their events.",
        "delete": "Delete objects, by name or as manifests name them.",
        "wait": "Wait until objects have a condition or a value, exist, or are deleted.",
        "logs": "Print a container's log.",
        "exec": "Run a command in a container.",
        "events": "Show events, oldest first.",
        "history": "Show who changed which fields of an object or a device when, or what differs between two moments.",
        "bundle": "Pack what a bug report needs: objects, their history, logs and versions; only the keys of Secrets.",
        "top": "Show the CPU and memory that nodes or pods use.",
    },
    "Devices": {
        "devices": "Show every device: its node, model, MIG placement, health, taints, claim and pod.",
        "explain": "Explain why a pod or claim has its node or devices, or none: the allocator's own trace.",
        "cel": "Show which devices a CEL selector matches, and which clause rejects the others.",
        "free": "Show the devices that are free, by class and shape, and the use of pools and counters.",
    },
    "Plans": {
        "plan": "Predict what the scheduler would do with a cluster, a dump of one, or a description.",
        "check": "Show what another version of Kubernetes rejects, drops or does differently, and what to do.",
        "export": "Write a cluster, a dump or a description to one file, anonymized if wanted.",
    },
    "Faults": {
        "fault": "Inject a fault for some time, and check what Kubernetes promises for it.",
        "storm": "Create and delete pods while random faults are injected, and check the cluster afterwards.",
    },
    "Development": {
        "new": "Write starter files: dralab new driver NAME (tests, manifests, CI), dralab new examples.",
        "bench": "Run a benchmark of a checkout and print its numbers; its own options follow its name.",
        "docs": "Show the documentation in a browser, without network.",
        "completion": "Print a shell script that completes commands and options.",
        "webhook": "Have the API server call a service's webhooks at a process on this machine.",
        "conformance": "Check a DRA driver, or compare our answers with recorded ones of the real Kubernetes.",
    },
}
COMMANDS: dict[str, str] = {name: text for group in GROUPS.values() for name, text in group.items()}


class Parser(argparse.ArgumentParser):
    """A parser for one command. Errors are one line that refers to the command's help."""

    def __init__(self, name: str, description: str, program: str = PROGRAM) -> None:
        super().__init__(prog=f"{program} {name}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}{self._suggestion(message)} see {self.prog} --help", 2)

    def _suggestion(self, message: str) -> str:
        """Return the question after a message about a word that resembles a choice or an option."""
        if match := _INVALID_CHOICE.search(message):
            return suggestion(match["given"], re.findall(r"[\w-]+", match["choices"]))
        if match := _UNKNOWN_OPTION.search(message):
            return suggestion(match["given"], [flag for one in self._actions for flag in one.option_strings])
        return ";"

    def switch(self, *flags: str, default: bool | None = False, help: str) -> None:
        """Add an option that is on or off: ``--wait``, ``--no-wait``, and ``--wait=false`` as in kubectl."""
        self.add_argument(*flags, action=argparse.BooleanOptionalAction, default=default, help=help)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words. The words after ``--`` are in ``rest``."""
        words, rest = _split(list(words))
        words = _join_ages(words)
        switches = {
            flag
            for action in self._actions
            if isinstance(action, argparse.BooleanOptionalAction)
            for flag in action.option_strings
        }
        chosen = self.parse_intermixed_args([_normalize_switch(word, switches) for word in words])
        chosen.rest = rest
        return chosen


def _join_ages(words: Sequence[str]) -> list[str]:
    """Join ``--at -5m`` to ``--at=-5m``, because argparse takes every word that begins with a dash for an option."""
    found: list[str] = []
    for word in words:
        if _AGO(word) and found and found[-1].startswith("--") and "=" not in found[-1]:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def suggestion(word: str, words: Sequence[str]) -> str:
    """Return ``: did you mean X?`` if one of the words is similar, and otherwise a semicolon."""
    similar = difflib.get_close_matches(word, words, n=1, cutoff=_SIMILAR)
    # In a short word, two letters that changed places are a large part.
    similar += [one for one in words if sorted(one) == sorted(word)]
    return f": did you mean {similar[0]}?" if similar else ";"


def unknown_command(name: str, commands: Sequence[str], program: str = PROGRAM) -> UserError:
    """Return the error for a command that does not exist. It suggests one of ``commands`` with a similar name."""
    if name in ("cordon", "drain", "uncordon") and "node" in commands:
        return UserError(f"unknown command {name!r}: did you mean {program} node {name}?", 2)
    if name in _OF_KUBECTL and program == PROGRAM:
        kubeconfig = "export KUBECONFIG=$(dralab kubeconfig)"
        return UserError(f"unknown command {name!r}: use kubectl {name}, after {kubeconfig}", 2)
    return UserError(f"unknown command {name!r}{suggestion(name, commands)} see {program} --help", 2)


def command(name: str) -> ModuleType:
    """Return the module of a command.

    Raises:
        UserError: there is no such command.
    """
    if name not in COMMANDS:
        raise unknown_command(name, list(COMMANDS))
    return importlib.import_module(f"dra_cli.commands.{name.replace('-', '_')}")


def parser(name: str, module: ModuleType | None = None, program: str = PROGRAM) -> Parser:
    """Return the parser for the words after a command's name."""
    made = Parser(name, COMMANDS[name], program)
    (module or command(name)).options(made)
    return made


def run(name: str, words: list[str], program: str = PROGRAM) -> int:
    """Run a command with these words, and return the exit code.

    Raises:
        UserError: there is no such command, or it rejects the words.
    """
    module = command(name)
    reader = parser(name, module, program)
    chosen = reader.parse_args(words) if hasattr(module, "TAKES_ALL") else reader.read(words)
    return module.run(chosen) or 0


def usage(program: str = PROGRAM, only: Sequence[str] = ()) -> str:
    """Return the text of ``dralab --help``, with all commands or ``only`` these."""
    lines = [f"usage: {program} COMMAND [OPTIONS]", "", "A Kubernetes DRA control plane in a box."]
    for title, commands in GROUPS.items():
        shown = {name: text for name, text in commands.items() if not only or name in only}
        if shown:
            lines += ["", f"{title}:", *(f"  {name:12} {text}" for name, text in shown.items())]
    lines += ["", f"{program} COMMAND --help lists a command's options."]
    return "\n".join(lines)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _normalize_switch(word: str, switches: set[str]) -> str:
    flag, equals, value = word.partition("=")
    if not equals or flag not in switches or value not in ("true", "false"):
        return word
    return flag if value == "true" else f"--no-{flag.removeprefix('--')}"
