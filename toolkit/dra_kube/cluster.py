"""A cluster's directory: where its state lies, who runs it, and how to reach it."""

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
    """One service process: its URL for health, metrics and the like, and how often it was restarted.

    ``refusal`` says why it ended for good, where it does not take its options.
    """

    pid: int
    url: str
    restarts: int = 0
    refusal: str = ""


@dataclass(kw_only=True)
class Record:
    """What ``cluster.json`` says of the running cluster, so that other commands find it."""

    pid: int
    server: str
    ready: bool = False
    token: str = ""
    """What requests to the services' ports need, the API server's left out; empty where they need nothing."""
    services: dict[str, ServiceRecord] = field(default_factory=dict)
    supervisor: str = ""
    """Where what runs the services takes faults of their processes; empty where it takes none."""
    supervisor_token: str = ""

    @classmethod
    def read(cls, file: Path) -> "Record":
        """What the file says.

        Raises:
            OSError, ValueError, TypeError, KeyError: it cannot be read, or is no such record.
        """
        known = json.loads(file.read_bytes())
        services = {name: ServiceRecord(**service) for name, service in known.pop("services").items()}
        return cls(**known, services=services)


# A lock in /proc/PID/fdinfo.
_EXCLUSIVE = re.compile(r"^lock:.*FLOCK.*WRITE", re.MULTILINE)
# What a record that is missing, or was torn by a crash, raises.
_NO_RECORD = (OSError, ValueError, TypeError, KeyError, AttributeError)


def _taken(lock: int) -> bool:
    """Whether the lock is this process's now. A command that looks whether a cluster runs shares it for a moment."""
    for _ in range(_ATTEMPTS):
        if _locks(lock, fcntl.LOCK_EX):
            return True
        time.sleep(_BETWEEN_ATTEMPTS)
    return False


def _locks(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Cluster:
    """The cluster whose state lies in ``data``."""

    def __init__(self, data: Path) -> None:
        self.data = data.absolute()
        self.logs = self.data / "logs"
        self.kubeconfig = self.data / "kubeconfig"
        self._record = self.data / "cluster.json"
        self._lock = self.data / "lock"
        self._held = -1

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the cluster for as long as it runs.

        Raises:
            UserError: another process runs it, or the directory cannot be written.
        """
        try:
            private_folder(self.logs)
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UserError(f"cannot use {self.data}: {error.strerror}") from error
        try:
            if not _taken(lock):
                raise UserError(
                    f"a cluster is already running in {self.data}{self._holder()}; "
                    f"stop it with `dralab down --data {shlex.quote(str(self.data))}` or choose another --data"
                )
            # A cluster that was killed still has ready in its record.
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

        Only Linux tells; elsewhere, and if there is none, it is 0.
        """
        lock = os.path.realpath(self._lock)
        for file in Path("/proc").glob("[0-9]*/fd/*"):
            # Processes end meanwhile, and those of others cannot be read.
            with contextlib.suppress(OSError):
                if os.readlink(file) in (lock, f"{lock} (deleted)"):
                    process = file.parent.parent
                    if _EXCLUSIVE.search((process / "fdinfo" / file.name).read_text()):
                        return int(process.name)
        return 0

    def running(self) -> bool:
        """Whether some process runs this cluster now."""
        try:
            lock = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not _locks(lock, fcntl.LOCK_SH)
        finally:
            os.close(lock)

    def record(self) -> Record:
        """What the running cluster says of itself.

        Raises:
            UserError: none is running here.
        """
        if self.running():
            with contextlib.suppress(*_NO_RECORD):
                return Record.read(self._record)
        raise UserError(
            f"no cluster is running in {self.data}; "
            f"start one with `dralab up --data {shlex.quote(str(self.data))}`"
        )

    def write(self, record: Record) -> None:
        """Replace what the cluster says of itself."""
        replace(self._record, json.dumps(asdict(record), indent=2).encode())

    def client(self, user_agent: str, server: str = "") -> "Client":
        """A client of the running cluster's API server, or of the one at ``server``, with the administrator's rights.

        Raises:
            UserError: none is running here, or its kubeconfig is of no use.
        """
        record = self.record()
        access = replace_fields(self._access(), server=server or record.server)
        return access.client(user_agent, retries=MAX_RETRIES)

    def service_client(self, service: str, user_agent: str) -> "Client":
        """A client of one of the running cluster's services, by its own port.

        Raises:
            UserError: none is running here, or its kubeconfig is of no use.
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
        """The cluster stops: nothing is to be reached any more."""
        self._record.unlink(missing_ok=True)

    def write_kubeconfig(
        self, server: str, credential: Mapping[str, str] | None = None, authority: str = ""
    ) -> None:
        """Write the kubeconfig that points kubectl and every other client here."""
        replace(self.kubeconfig, kubeconfig(server, {"dralab": credential or {}}, authority))

    def _holder(self) -> str:
        try:
            return f" (pid {Record.read(self._record).pid})"
        except _NO_RECORD:
            return ""


def own_console(cluster: Cluster) -> str | None:
    """The address of the console that the cluster serves; None where a browser has not the credentials for it.

    Raises:
        UserError: the cluster does not run.
    """
    from dra_shared.client.kubeconfig import load

    cluster.record()
    access = load(cluster.kubeconfig)
    plain = access.token is None and access.server.startswith("http://")
    return f"{access.server}/console/" if plain else None


def replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, for its owner alone."""
    part = path.with_name(path.name + ".part")
    try:
        private_file(part)
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def kubeconfig(server: str, users: Mapping[str, Mapping[str, str]], authority: str = "") -> bytes:
    """A kubeconfig for the server and these users, with their credentials; the first one's context is the current.

    ``authority`` is the certificate, as PEM, that the server's is checked against.
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
