"""A cluster's directory: where its state lies, who runs it, and how to reach it."""

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dra_cli.errors import CommandError


class Record(msgspec.Struct, kw_only=True):
    """What ``cluster.json`` says of the running cluster, so that other commands find it."""

    pid: int
    server: str
    ready: bool = False
    services: dict[str, "ServiceRecord"] = {}


class ServiceRecord(msgspec.Struct, kw_only=True):
    """One service process: its URL for health, metrics and the like, and how often it was restarted."""

    pid: int
    url: str
    restarts: int = 0


class Cluster:
    """The cluster whose state lies in ``data``."""

    def __init__(self, data: Path) -> None:
        self.data = data.absolute()
        self.logs = self.data / "logs"
        self.kubeconfig = self.data / "kubeconfig"
        self._record = self.data / "cluster.json"
        self._lock = self.data / "lock"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the cluster for as long as it runs.

        Raises:
            CommandError: another process runs it, or the directory cannot be written.
        """
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CommandError(f"cannot use {self.data}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(
                    f"a cluster is already running in {self.data}{self._holder()}; "
                    f"stop it with `dralab down --data {shlex.quote(str(self.data))}` or choose another --data"
                ) from None
            # One that was killed said until the end that it is ready.
            self.forget()
            yield
        finally:
            os.close(lock)

    def running(self) -> bool:
        """Whether some process runs this cluster now."""
        try:
            lock = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def record(self) -> Record:
        """What the running cluster says of itself.

        Raises:
            CommandError: none is running here.
        """
        if self.running():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                return msgspec.json.decode(self._record.read_bytes(), type=Record)
        raise CommandError(
            f"no cluster is running in {self.data}; "
            f"start one with `dralab up --data {shlex.quote(str(self.data))}`"
        )

    def write(self, record: Record) -> None:
        """Replace what the cluster says of itself."""
        replace(self._record, msgspec.json.format(msgspec.json.encode(record)))

    def forget(self) -> None:
        """The cluster stops: nothing is to be reached any more."""
        self._record.unlink(missing_ok=True)

    def write_kubeconfig(self, server: str) -> None:
        """Write the kubeconfig that points kubectl and every other client here."""
        replace(self.kubeconfig, _KUBECONFIG.format(server=server).encode())

    def _holder(self) -> str:
        try:
            return f" (pid {msgspec.json.decode(self._record.read_bytes(), type=Record).pid})"
        except (OSError, msgspec.DecodeError):
            return ""


def replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)


_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: dralab
  cluster:
    server: {server}
contexts:
- name: dralab
  context:
    cluster: dralab
    user: dralab
current-context: dralab
users:
- name: dralab
  user: {{}}
"""
