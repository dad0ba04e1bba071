"""The ``dralab`` command: run the called command, and turn errors into one line and an exit code.

Modules are imported inside the functions that catch errors, because Ctrl-C may arrive during an import.
"""

import os
import sys
from collections.abc import Callable, Sequence

from dra_shared.errors import UserError

from dra_cli import PROGRAM


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``dralab``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    exit_with(lambda: _run(words), PROGRAM)


def exit_with(work: Callable[[], int], program: str) -> None:
    """Run ``work`` and exit with its code. An error becomes one line on standard error and an exit code."""
    # httpx's own command line takes longer to import than the rest of httpx, and so does rich, which structlog imports
    # if it is installed. None in sys.modules prevents both imports.
    for name in ("httpx._main", "rich"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None is what import looks for
    try:
        sys.exit(_code(work, program))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Redirect to /dev/null, because Python flushes the buffer at exit and would report the broken pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _run(words: list[str]) -> int:
    from dra_cli.commandline import run, usage

    if not words or words[0] in ("--help", "-h", "help"):
        print(usage())
        return 0
    if words[0] in ("--version", "version"):
        from dra_shared import __version__
        from dra_shared.version import describe_versions

        print(f"{PROGRAM} {__version__}\nKubernetes {describe_versions()}")
        return 0
    return run(words[0], words[1:])


def _code(work: Callable[[], int], program: str) -> int:
    try:
        code = work()
        sys.stdout.flush()
    except UserError as error:
        return _fail(program, str(error), error.code)
    except BrokenPipeError:
        raise
    except Exception as error:
        return _fail(program, _text(error), 1)
    return code


def _text(error: Exception) -> str:
    """Return the message of an error for the user.

    Raises:
        Exception: the error is not one that a user can act on.
    """
    if isinstance(error, RecursionError):
        return "an object has too many levels"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    import httpx
    from dra_shared.client.errors import ApiError

    if isinstance(error, ApiError):
        return f"Error from server ({error.reason or error.code}): {error}"
    if isinstance(error, httpx.HTTPError):
        return f"cannot reach the API server: {error}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    raise error


def _fail(program: str, message: str, code: int) -> int:
    print(f"{program}: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
