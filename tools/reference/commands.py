"""Every command of ``dralab``, from its parser."""

import argparse
from collections.abc import Iterator, Mapping

from dra_cli import commandline
from dra_cli.commands.learn import ACTIONS
from dra_recordings.comparison import SUBJECTS

from tools.reference.arguments import arguments, flag_table, usage
from tools.reference.markdown import Page, code, plain, table

# Commands that a page says more about: the page, perhaps with a heading.
_GUIDES = {
    "up": "configuration.md#dralab-up",
    "snapshot": "history.md#snapshots",
    "node": "configuration.md#add-and-remove-nodes",
    "kubeconfig": "security.md#services-and-users-on-other-machines",
    "certificates": "deploy.md",
    "learn": "learn.md",
    "console": "console.md",
    "convert": "classic-dra.md",
    "get": "#templates",
    "history": "history.md#in-a-terminal",
    "bundle": "history.md#a-bundle-for-a-bug-report",
    "explain": "explain.md",
    "cel": "console.md#in-a-terminal",
    "free": "explain.md",
    "plan": "plan.md",
    "check": "versions.md#before-an-upgrade",
    "export": "plan.md#a-world-as-one-file",
    "fault": "faults.md",
    "storm": "faults.md#storms",
    "new": "writing-a-driver.md#create-a-project",
    "conformance": "conformance.md",
    "webhook": "operators.md",
}


def page() -> Page:
    """Return the page of all commands with their arguments and options."""
    return Page(
        "reference/commands.md",
        "Commands",
        "Every command with its arguments and options, as `dralab COMMAND --help` lists them. What they are for: [The "
        "dralab command](../cli.md).",
        "\n\n".join(_groups()),
    )


def overview() -> str:
    """Return the table of all commands and subcommands, for docs/cli.md.

    Raises:
        ValueError: a guide is for a command that does not exist.
    """
    if unknown := _GUIDES.keys() - commandline.COMMANDS.keys():
        raise ValueError(f"no commands: {', '.join(sorted(unknown))}")
    return table(["command", "does", "more"], _overview())


def options_of_up() -> str:
    """Return the table of the options of ``dralab up``, for docs/configuration.md."""
    parser = commandline.parser("up")
    return flag_table(one for one in parser._actions if one.option_strings and one.dest != "help")


def _overview() -> Iterator[list[str]]:
    for title, commands in commandline.GROUPS.items():
        yield [f"**{title}**", "", ""]
        for name, about in commands.items():
            questions = _questions(commandline.parser(name))
            page = _GUIDES.get(name, "")
            more = f"[{page.partition('#')[0] or page[1:]}]({page})" if page else ""
            yield [", ".join(code(word) for word in _calls(name)), plain_code(about), more]
            for question, made in questions.items():
                yield [code(f"{name} {question}"), plain_code(made.description or ""), ""]


def _calls(name: str) -> list[str]:
    """Return the command with each of its subcommands, or the command alone."""
    if name == "learn":
        return ["learn", *(f"learn {action}" for action in ACTIONS)]
    if name == "conformance":
        return ["conformance driver", *(f"conformance {subject}" for subject in SUBJECTS)]
    first = next((one for one in commandline.parser(name)._actions if not one.option_strings), None)
    if first is None or first.choices is None or isinstance(first, argparse._SubParsersAction):
        return [name]
    return [f"{name} {choice}" for choice in first.choices]


def plain_code(text: str) -> str:
    """Return text that Markdown shows unchanged, except for code in backticks."""
    return "`".join(part if place % 2 else plain(part) for place, part in enumerate(text.split("`")))


def _groups() -> Iterator[str]:
    for title, commands in commandline.GROUPS.items():
        yield f"## {title}"
        for name, about in commands.items():
            module = commandline.command(name)
            parser = commandline.parser(name, module)
            yield f"### {name}"
            yield f"```text\n{usage(parser)}\n```"
            yield about
            if questions := _questions(parser):
                for question, made in questions.items():
                    yield f"#### {name} {question}"
                    yield f"```text\n{usage(made)}\n```"
                    yield f"{(made.description or '').capitalize()}."
                    yield arguments(made)
            elif not hasattr(module, "TAKES_ALL"):
                # The words after such a command belong to another program.
                yield arguments(parser)


def _questions(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of a command's subcommands that have options of their own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found: Mapping[str, argparse.ArgumentParser] = action.choices
            return found
    return {}
