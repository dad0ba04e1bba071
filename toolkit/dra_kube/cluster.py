"""A cluster's directory: the lock, the record of the running cluster, and its kubeconfig."""

import base64
import contextlib
import fcntl
import json
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING

from dra_shared.client.retry import MAX_RETRIES
from dra_shared.errors import UserError
from dra_shared.files import private_file, private_folder

if TYPE_CHECKING:
    from dra_shared.client.kubeconfig import Access
    from dra_shared.client.rest import Client


_ATTEMPTS = 20
_BETWEEN_ATTEMPTS = 0.01


@dataclass(kw_only=True)
class ServiceRecord:
    """A service process: its URL for health, metrics and the like, and the number of its restarts.

    ``refusal`` is the error of a service that rejects its options and is not restarted; empty otherwise.
    """

    pid: int
    url: str
    restarts: int = 0
    refusal: str = ""


@dataclass(kw_only=True)
class Record:
    """The record of the running cluster in ``cluster.json``, with which other commands find it."""

    pid: int
    server: str
    ready: bool = False
    token: str = ""
    """The token for the ports of all services except the API server; empty if they need none."""
    services: dict[str, ServiceRecord] = field(default_factory=dict)
    supervisor: str = ""
    """The URL where the supervisor accepts faults of processes; empty if it accepts none."""
    supervisor_token: str = ""

    @classmethod
    def read(cls, file: Path) -> "Record":
        """Read the record from the file.

        Raises:
            OSError, ValueError, TypeError, KeyError: the file cannot be read, or is not a record.
        """
        known = json.loads(file.read_bytes())
        services = {name: ServiceRecord(**service) for name, service in known.pop("services").items()}
        return cls(**known, services=services)


# The line of an exclusive lock in /proc/PID/fdinfo.
_EXCLUSIVE = re.compile(r"^lock:.*FLOCK.*WRITE", re.MULTILINE)
# Errors of a record that is missing, or that a crash left incomplete.
_NO_RECORD = (OSError, ValueError, TypeError, KeyError, AttributeError)


def _take_lock(lock: int) -> bool:
    """Try to take the exclusive lock for a moment, and return True on success.

    One try is not enough: a command that checks whether a cluster runs briefly holds a shared lock.
    """
    for _ in range(_ATTEMPTS):
        if _try_lock(lock, fcntl.LOCK_EX):
            return True
        time.sleep(_BETWEEN_ATTEMPTS)
    return False


def _try_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Cluster:
    """The cluster with the directory ``data``."""

    def __init__(self, data: Path) -> None:
        self.data = data.absolute()
        self.logs = self.data / "logs"
        self.kubeconfig = self.data / "kubeconfig"
        self._record = self.data / "cluster.json"
        self._lock = self.data / "lock"
        self._held = -1

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the cluster's lock while the cluster runs.

        Raises:
            UserError: another process runs it, or the directory cannot be written.
        """
        try:
            private_folder(self.logs)
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UserError(f"cannot use {self.data}: {error.strerror}") from error
        try:
            if not _take_lock(lock):
                raise UserError(
                    f"a cluster is already running in {self.data}{self._holder()}; "
                    f"stop it with `dralab down --data {shlex.quote(str(self.data))}` or choose another --data"
                )
            # Remove the record of a cluster that was killed: it still says that the cluster is ready.
            self.forget()
            self._held = lock
            yield
        finally:
            self._held = -1
            os.close(lock)

    def is_lost(self) -> bool:
        """True if the directory of the cluster that this process runs was removed, moved or replaced."""
        try:
            return not os.path.samestat(os.stat(self._lock), os.fstat(self._held))
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False

    def holder(self) -> int:
        """Return the pid of the process that runs this cluster, even if its directory was removed since.

        Return 0 if there is none, and on systems other than Linux.
        """
        lock = os.path.realpath(self._lock)
        for file in Path("/proc").glob("[0-9]*/fd/*"):
            # Processes may exit meanwhile, and those of other users cannot be read.
            with contextlib.suppress(OSError):
                if os.readlink(file) in (lock, f"{lock} (deleted)"):
                    process = file.parent.parent
                    if _EXCLUSIVE.search((process / "fdinfo" / file.name).read_text()):
                        return int(process.name)
        return 0

    def is_running(self) -> bool:
        """True if a process runs this cluster."""
        try:
            lock = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not _try_lock(lock, fcntl.LOCK_SH)
        finally:
            os.close(lock)

    def record(self) -> Record:
        """Return the record of the running cluster.

        Raises:
            UserError: no cluster runs here.
        """
        if self.is_running():
            with contextlib.suppress(*_NO_RECORD):
                return Record.read(self._record)
        raise UserError(
            f"no cluster is running in {self.data}; "
            f"start one with `dralab up --data {shlex.quote(str(self.data))}`"
        )

    def write(self, record: Record) -> None:
        """Replace the record of the running cluster."""
        replace(self._record, json.dumps(asdict(record), indent=2).encode())

    def client(self, user_agent: str, server: str = "") -> "Client":
        """Return a client of the API server, or of the server at the given URL, with the administrator's rights.

        Raises:
            UserError: no cluster runs here, or its kubeconfig cannot be used.
        """
        record = self.record()
        access = replace_fields(self._access(), server=server or record.server)
        return access.client(user_agent, retries=MAX_RETRIES)

    def service_client(self, service: str, user_agent: str) -> "Client":
        """Return a client of one of the running cluster's services, at the service's own port.

        Raises:
            UserError: no cluster runs here, or its kubeconfig cannot be used.
        """
        record = self.record()
        url = record.services[service].url
        return replace_fields(self._access(), server=url, token=record.token).client(user_agent)

    def _access(self) -> "Access":
        from dra_shared.client.kubeconfig import KubeconfigError, load

        try:
            return load(self.kubeconfig)
        except KubeconfigError as error:
            raise UserError(str(error)) from error

    def forget(self) -> None:
        """Delete the record, because the cluster stops."""
        self._record.unlink(missing_ok=True)

    def write_kubeconfig(
        self, server: str, credential: Mapping[str, str] | None = None, authority: str = ""
    ) -> None:
        """Write the kubeconfig for kubectl and other clients."""
        replace(self.kubeconfig, kubeconfig(server, {"dralab": credential or {}}, authority))

    def _holder(self) -> str:
        try:
            return f" (pid {Record.read(self._record).pid})"
        except _NO_RECORD:
            return ""


def own_console(cluster: Cluster) -> str | None:
    """Return the address of the cluster's console, or None if it needs credentials that a browser lacks.

    Raises:
        UserError: the cluster does not run.
    """
    from dra_shared.client.kubeconfig import load

    cluster.record()
    access = load(cluster.kubeconfig)
    plain = access.token is None and access.server.startswith("http://")
    return f"{access.server}/console/" if plain else None


def replace(path: Path, content: bytes) -> None:
    """Write a file atomically, readable by its owner only."""
    part = path.with_name(path.name + ".part")
    try:
        private_file(part)
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def kubeconfig(server: str, users: Mapping[str, Mapping[str, str]], authority: str = "") -> bytes:
    """Return a kubeconfig for the server and the users with their credentials. The first user's context is current.

    ``authority`` is the CA certificate, as PEM, for the server's certificate.
    """
    import yaml

    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "dralab", "cluster": cluster}],
        "contexts": [
            {"name": _context(number), "context": {"cluster": "dralab", "user": user}}
            for number, user in enumerate(users)
        ],
        "current-context": _context(0),
        "users": [{"name": user, "user": dict(credential)} for user, credential in users.items()],
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _context(number: int) -> str:
    return "dralab" if not number else f"dralab-{number}"
