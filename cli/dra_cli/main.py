"""The ``dralab`` command: finds the command that was called, and turns errors into one line and an exit code."""

import os
import sys
from collections.abc import Sequence

from dra_cli.commandline import PROGRAM, command, parser, usage
from dra_cli.errors import CommandError


def main(arguments: Sequence[str] | None = None) -> None:
    """The command's entry: every error is one line on standard error and an exit code."""
    try:
        sys.exit(_main(list(sys.argv[1:] if arguments is None else arguments)))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # What is still buffered cannot be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _main(words: list[str]) -> int:
    try:
        return _run(words)
    except CommandError as error:
        return _fail(str(error), error.code)
    except Exception as error:
        return _fail(_text(error), 1)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(usage())
        return 0
    # httpx's own command line costs more to import than all the rest of it.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None keeps a module from being imported
    name, *words = words
    module = command(name)
    reader = parser(name, module)
    chosen = reader.parse_args(words) if hasattr(module, "TAKES_ALL") else reader.read(words)
    return module.run(chosen) or 0


def _text(error: Exception) -> str:
    """What an error says to a user.

    Raises:
        Exception: it is none that a user can act on.
    """
    import httpx
    from dra_shared.client.errors import ApiError

    if isinstance(error, ApiError):
        return f"Error from server ({error.reason or error.code}): {error}"
    if isinstance(error, httpx.HTTPError):
        return f"cannot reach the API server: {error}"
    if isinstance(error, OSError):
        return str(error)
    raise error


def _fail(message: str, code: int) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
