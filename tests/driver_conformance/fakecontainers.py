"""A container tool for tests: ``run``, ``kill``, ``rm`` and ``inspect`` like docker's, for plain processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

_FLAGS = ("--rm", "--privileged")


def main(state: Path, words: list[str]) -> int:
    """Run one command. Return its exit code."""
    command, *rest = words
    if command == "run":
        return _run(state, rest)
    pid = state / rest[-1]
    if not pid.exists():
        return 1
    match command:
        case "kill":
            os.kill(int(pid.read_text()), getattr(signal, f"SIG{rest[1]}"))
        case "rm":
            os.kill(int(pid.read_text()), signal.SIGKILL)
        case "inspect":
            sys.stdout.write(pid.read_text())
    return 0


def _run(state: Path, words: list[str]) -> int:
    options: list[tuple[str, str]] = []
    while words[0].startswith("--"):
        name = words.pop(0)
        options.append((name, "" if name in _FLAGS else words.pop(0)))
    (state / "options").write_text("\n".join(f"{name} {value}" for name, value in options))
    environment = dict(value.split("=", 1) for name, value in options if name == "--env")
    pid = state / dict(options)["--name"]
    # A container has nothing of the tool's environment except the path of Python's modules. It is registered
    # before it runs.
    process = subprocess.Popen(
        words,
        env={"PATH": os.environ["PATH"], **environment},
        start_new_session=True,
        preexec_fn=lambda: pid.write_text(str(os.getpid())),
    )
    code = process.wait()
    pid.unlink()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
