"""Every command of ``dralab``, from its parser."""

from collections.abc import Iterator

from dra_cli import commandline

from tools.reference.arguments import arguments, usage
from tools.reference.markdown import Page


def page() -> Page:
    """All commands with their arguments and options."""
    return Page(
        "reference/commands.md",
        "Commands",
        "Every command with its arguments and options, as `dralab COMMAND --help` lists them. What they are for: [The "
        "dralab command](../cli.md).",
        "\n\n".join(_groups()),
    )


def _groups() -> Iterator[str]:
    for title, commands in commandline.GROUPS.items():
        yield f"## {title}"
        for name, about in commands.items():
            module = commandline.command(name)
            parser = commandline.parser(name, module)
            yield f"### {name}"
            yield f"```text\n{usage(parser)}\n```"
            yield about
            # The words after such a command are another program's.
            yield arguments(parser) if not hasattr(module, "TAKES_ALL") else ""
