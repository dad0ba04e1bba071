"""``dralab completion``: print shell completion scripts, generated from the commands' own options.

They complete commands, options and the kinds that matter for DRA. They ask no cluster, so that they never wait.
"""

import argparse

from dra_cli import PROGRAM
from dra_cli.commandline import COMMANDS, Parser, parser

_KINDS = (
    "all pods nodes resourceclaims resourceclaimtemplates resourceslices deviceclasses devicetaintrules "
    "deployments jobs namespaces events services configmaps"
)
_OBJECTS = ("get", "describe", "delete")
_SHELLS = ("bash", "zsh", "fish")


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("shell", choices=_SHELLS, help="bash, zsh or fish")


def run(chosen: argparse.Namespace) -> None:
    """Print the script: ``source <(dralab completion bash)``."""
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[chosen.shell]())


def _flags(command: str) -> list[tuple[str, str]]:
    """Return a command's long options and their help texts."""
    return [
        (flag, (action.help or "").replace("%%", "%"))
        for action in parser(command)._actions
        for flag in action.option_strings
        if flag.startswith("--") and not flag.startswith("--no-")
    ]


def _bash() -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join(flag for flag, _ in _flags(name))}{" " + _KINDS if name in _OBJECTS else ""}" ;;'
        for name in COMMANDS
    )
    return f"""_{PROGRAM}() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(COMMANDS)} --help --version" -- "$current"))
    return
  fi
  case "$previous" in
    -f|--filename|--data|--kubeconfig|-k|--driver|--images|--gpu-models)
      COMPREPLY=($(compgen -f -- "$current")); return ;;
    -o|--output) COMPREPLY=($(compgen -W "wide yaml json name" -- "$current")); return ;;
  esac
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o filenames -F _{PROGRAM} {PROGRAM}"""


def _zsh() -> str:
    commands = " ".join(f"'{name}:{_strip_special(text)}'" for name, text in COMMANDS.items())
    cases = "\n".join(
        f"    {name}) _arguments "
        + " ".join(f"'{flag}[{_strip_special(text)}]:value:_files'" for flag, text in _flags(name))
        + (f" '*:kind:({_KINDS})'" if name in _OBJECTS else " '*:file:_files'")
        + " ;;"
        for name in COMMANDS
    )
    return f"""#compdef {PROGRAM}
_{PROGRAM}() {{
  local -a commands
  commands=({commands})
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local command=$words[2]
  shift words; (( CURRENT-- ))
  case $command in
{cases}
  esac
}}
compdef _{PROGRAM} {PROGRAM}"""


def _fish() -> str:
    lines = [f"complete -c {PROGRAM} -f"]
    for name, text in COMMANDS.items():
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -a {name} -d '{_strip_special(text)}'")
        seen = f"'__fish_seen_subcommand_from {name}'"
        for flag, about in _flags(name):
            lines.append(f"complete -c {PROGRAM} -n {seen} -l {flag[2:]} -d '{_strip_special(about)}'")
        if name in _OBJECTS:
            lines.append(f"complete -c {PROGRAM} -n {seen} -a '{_KINDS}'")
    return "\n".join(lines)


def _strip_special(text: str) -> str:
    """Remove the characters that end a single-quoted text or have a meaning in zsh's brackets."""
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " -")
