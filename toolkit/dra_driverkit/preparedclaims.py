"""The prepared claims of a driver on a node: an entry for each in the driver's checkpoint, and a CDI file.

Each driver has its own form of the checkpoint, which a :class:`Format` reads and writes. Two instances of a
driver may share the files, one call at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from dra_driverkit.cdi import (
    CdiDevice,
    ContainerEdits,
    Spec,
    SpecError,
    qualified_name,
    read_spec,
    remove_spec,
    remove_unknown_specs,
    transient_name,
    write_spec,
)
from dra_driverkit.errors import CheckpointError, PrepareError
from dra_driverkit.statefile import StateFile

Claim = TypeVar("Claim")


class Format(Protocol[Claim]):
    """The form of a checkpoint."""

    def decode(self, data: bytes) -> dict[str, Claim]:
        """Return the claims by UID.

        Raises:
            CheckpointError: the data are damaged.
        """
        ...

    def encode(self, claims: Mapping[str, Claim]) -> bytes:
        """Return the checkpoint with these claims."""
        ...


class PreparedClaims(Generic[Claim]):
    """The checkpoint and the CDI files. Each change writes the whole checkpoint.

    Args:
        path: the file of the checkpoint.
        cdi: the directory of the CDI files.
        kind: the kind of the CDI devices, ``vendor/class``.
        durable, durable_specs: True if the checkpoint (or CDI files) must survive a power cut once written.
        restores: True to write the checkpoint again if someone deleted it while the driver ran.
    """

    def __init__(
        self,
        path: Path,
        format_: Format[Claim],
        cdi: Path,
        kind: str,
        *,
        durable: bool = True,
        durable_specs: bool = True,
        restores: bool = False,
    ) -> None:
        self._file = StateFile(path, durable=durable)
        self._format = format_
        self._cdi = cdi
        self._kind = kind
        self._vendor, _, self._class = kind.partition("/")
        self._durable_specs = durable_specs
        self._restores = restores
        self._claims: dict[str, Claim] | None = None

    @property
    def exists(self) -> bool:
        """True if there is a checkpoint."""
        return self._file.path.exists()

    def claims(self) -> dict[str, Claim]:
        """Return all claims by UID. Read the checkpoint if another instance wrote it.

        Raises:
            CheckpointError: the checkpoint is damaged.
            OSError: it cannot be read.
        """
        if self._claims is None or self._file.has_changed():
            self._claims = self._read()
        return dict(self._claims)

    def update(self, change: Callable[[dict[str, Claim]], None]) -> None:
        """Apply the change to the claims, and write them. Raises like :meth:`claims`."""
        claims = self.claims()
        change(claims)
        self.replace(claims)

    def put(self, uid: str, claim: Claim) -> None:
        """Write one claim. Raises like :meth:`claims`."""
        self.update(lambda claims: claims.__setitem__(uid, claim))

    def drop(self, *uids: str) -> None:
        """Remove the claims with these UIDs, if they exist. Raises like :meth:`claims`."""

        def change(claims: dict[str, Claim]) -> None:
            for uid in uids:
                claims.pop(uid, None)

        self.update(change)

    def replace(self, claims: Mapping[str, Claim]) -> None:
        """Write these claims in place of all others. If that fails, the old ones stay."""
        self._file.write(self._format.encode(claims))
        self._claims = dict(claims)

    def write_spec(
        self,
        uid: str,
        devices: Sequence[CdiDevice],
        common: ContainerEdits = ContainerEdits(),  # noqa: B008 (it is immutable)
    ) -> None:
        """Write the CDI file of a claim. ``common`` are the edits that all of its devices share.

        Raises:
            PrepareError: the file cannot be written.
        """
        spec = Spec(self._kind, tuple(devices), container_edits=common)
        try:
            write_spec(self._cdi, self._name(uid), spec, durable=self._durable_specs)
        except (OSError, ValueError) as error:
            raise PrepareError(f"unable to create CDI spec file for claim: {error}") from error

    def has_spec(self, uid: str) -> bool:
        """True if the claim's CDI file exists and can be read."""
        try:
            read_spec(self._cdi / f"{self._name(uid)}.yaml")
        except (OSError, SpecError):
            return False
        return True

    def remove_spec(self, uid: str) -> None:
        """Remove the claim's CDI file, if there is one."""
        remove_spec(self._cdi, self._name(uid))

    def remove_unknown_specs(self, *others: str) -> None:
        """Remove the CDI files of claims that are not in the checkpoint, except ``others``."""
        remove_unknown_specs(self._cdi, self._vendor, self._class, {*self.claims(), *others})

    def cdi_id(self, device: str) -> str:
        """Return the CDI id of a device of a claim's file."""
        return qualified_name(self._vendor, self._class, device)

    def _name(self, uid: str) -> str:
        return transient_name(self._vendor, self._class, uid)

    def _read(self) -> dict[str, Claim]:
        try:
            data = self._file.read()
        except FileNotFoundError:
            if not self._restores:
                raise
            # Someone deleted the file. The state of this process is still correct.
            self.replace(self._claims or {})
            return dict(self._claims or {})
        try:
            return self._format.decode(data)
        except CheckpointError as error:
            raise CheckpointError(f"{self._file.path}: {error}") from error
