"""A PostgreSQL for tests: a server in a temporary folder, and a schema for each test."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PROGRAMS = "/usr/lib/postgresql"
FAILOVER = "-c wal_level=replica"
"""The option that a server needs for `fail_over`."""
# The server refuses to run as root.
_USER = "postgres"
_OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        *("fsync=off", "listen_addresses=", "max_connections=200", "shared_buffers=16MB"),
        *("max_wal_senders=0", "wal_level=minimal"),
    )
)

_numbers = itertools.count()


def programs() -> Path | None:
    """Return the folder of the newest server's programs, or None."""
    found = sorted(Path(_PROGRAMS).glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    if found:
        return found[-1].parent
    named = shutil.which("initdb")
    return None if named is None else Path(named).resolve().parent


def require_programs() -> Path:
    """Return the programs. Without them the test is skipped, but in CI, which installs them, it fails."""
    found = programs()
    if found is None:
        text = "PostgreSQL is not installed (tools/postgresql installs it)"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    return found


class Postgres:
    """A running server."""

    def __init__(self, binaries: Path, folder: Path, options: str = "") -> None:
        self._binaries = binaries
        self.folder = folder
        self._options = options
        self._user = None if os.getuid() else _USER
        self._data = folder / "data"
        self._run(
            "initdb",
            "-D",
            str(self._data),
            "-U",
            "dralab",
            "-A",
            "trust",
            "--no-sync",
            "--no-instructions",
            "-E",
            "UTF8",
            "--locale=C",
        )

    def _run(self, program: str, *arguments: str) -> None:
        self._execute(self._binaries / program, *arguments)

    def _execute(self, *words: str | Path) -> None:
        subprocess.run(
            words,
            check=True,
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )

    def start(self) -> None:
        """Start, and wait until the server responds."""
        options = f"{_OPTIONS} {self._options} -k {self.folder}"
        self._run(
            "pg_ctl", "-D", str(self._data), "-w", "-l", str(self.folder / "log"), "-o", options, "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `immediate` is a crash."""
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "stop")

    def end(self) -> None:
        """Stop the server if it runs. A failed test may have stopped it already."""
        if (self._data / "postmaster.pid").exists():
            self.stop()

    def copy(self) -> Path:
        """Return a copy of the current data, like a standby that no longer follows. Restarts the server."""
        self.stop("fast")
        copied = self.folder / "copy"
        self._execute("cp", "-a", self._data, copied)
        self.start()
        return copied

    def fail_over(self, standby: Path) -> None:
        """Crash, and promote a standby with these data, which begins a new timeline. Needs `FAILOVER`."""
        self.stop()
        self._execute("rm", "-r", self._data)
        self._execute("mv", standby, self._data)
        self._execute("touch", self._data / "standby.signal")
        self.start()
        self._run("pg_ctl", "-D", str(self._data), "-w", "promote")

    def database(self) -> str:
        """Return the URL of a new schema, which is faster to create and remove than a database."""
        import psycopg

        schema = f"test{next(_numbers)}"
        with psycopg.connect(self._url(""), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return self._url(f"&options=-csearch_path%3D{schema}")

    def _url(self, more: str) -> str:
        return f"postgresql://dralab@/postgres?host={self.folder}{more}"


@contextmanager
def run_postgres(options: str = "") -> Iterator[Postgres]:
    """Run a server until the end of the context, with more options."""
    binaries = require_programs()
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="p", dir="/tmp") as name:
        folder = Path(name)
        if not os.getuid():
            entry = pwd.getpwnam(_USER)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        server = Postgres(binaries, folder, options)
        server.start()
        try:
            yield server
        finally:
            server.end()
