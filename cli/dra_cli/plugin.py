"""``kubectl dra``: kubectl runs the program ``kubectl-dra`` from the path.

The cluster is kubectl's current one, from ``KUBECONFIG`` or ``~/.kube/config``, unless an option names another.
"""

import sys
from collections.abc import Sequence

from dra_cli.main import exit_with

PROGRAM = "kubectl dra"
_WANTED = ("explain", "free", "devices", "plan")
_NAMED = ("--data", "--kubeconfig", "--context", "--server", "-s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``kubectl dra``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    exit_with(lambda: _run(words), PROGRAM)


def commands() -> list[str]:
    """Return the commands that ``kubectl dra`` has."""
    from dra_cli import commandline

    return [name for name in _WANTED if name in commandline.COMMANDS]


def _run(words: list[str]) -> int:
    from dra_kube.access import current_kubeconfig

    from dra_cli import commandline

    if not words or words[0] in ("--help", "-h"):
        print(commandline.usage(PROGRAM, commands()))
        return 0
    name, *rest = words
    if name not in commands():
        raise commandline.unknown_command(name, commands(), PROGRAM)
    named = any(word.partition("=")[0] in _NAMED for word in rest)
    return commandline.run(
        name, rest if named else ["--kubeconfig", str(current_kubeconfig()), *rest], PROGRAM
    )
