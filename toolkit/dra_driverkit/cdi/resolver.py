"""Convert CDI device ids to container edits, as a container engine does."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dra_shared.log import logger

from dra_driverkit.cdi.names import parse_qualified_name
from dra_driverkit.cdi.spec import ContainerEdits, Spec, SpecError
from dra_driverkit.cdi.writer import read_spec

_log = logger(__name__)


class UnresolvableError(LookupError):
    """No spec file defines some of the devices that a container requests."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(f"unresolvable CDI devices {', '.join(devices)}")
        self.devices = tuple(devices)


def resolve(cdi_ids: Iterable[str], cdi_dir: Path) -> ContainerEdits:
    """Return the edits for a container with these devices: each spec's common edits once, then the edits of each
    device.

    A spec file that is broken is skipped with a warning, as engines do, so only its own devices are missing.

    Args:
        cdi_ids: fully qualified names; a repeated one counts once.
        cdi_dir: the node's CDI directory.

    Raises:
        UnresolvableError: a device is in no file, or its name is malformed.
    """
    wanted = list(dict.fromkeys(cdi_ids))
    if not wanted:
        return ContainerEdits()
    specs = _Directory(cdi_dir)
    edits = ContainerEdits()
    applied: list[Spec] = []
    missing: list[str] = []
    for name in wanted:
        try:
            vendor, class_, device = parse_qualified_name(name)
        except ValueError:
            missing.append(name)
            continue
        found = specs.find(f"{vendor}/{class_}", device)
        if found is None:
            missing.append(name)
            continue
        spec, device_edits = found
        if not any(spec is earlier for earlier in applied):
            applied.append(spec)
            edits = edits.merge(spec.container_edits)
        edits = edits.merge(device_edits)
    if missing:
        raise UnresolvableError(missing)
    return edits


class _Directory:
    """The spec files of a directory.

    The file that a device's name suggests is read first, and all others only if needed.
    """

    def __init__(self, directory: Path) -> None:
        self._paths = sorted(p for p in directory.glob("*") if p.suffix in (".yaml", ".json"))
        self._read: dict[Path, Spec | None] = {}

    def find(self, kind: str, device: str) -> tuple[Spec, ContainerEdits] | None:
        prefixes = kind.replace("/", "-"), kind.replace("/", "_")
        likely = [
            p for p in self._paths if p.stem.startswith(prefixes) and p.stem.rpartition("_")[2] in device
        ]
        for path in (*likely, *self._paths):
            spec = self._load(path)
            if spec is None or spec.kind != kind:
                continue
            for candidate in spec.devices:
                if candidate.name == device:
                    return spec, candidate.container_edits
        return None

    def _load(self, path: Path) -> Spec | None:
        if path not in self._read:
            try:
                self._read[path] = read_spec(path)
            except (SpecError, OSError) as error:
                _log.warning("skipping a broken CDI spec", path=str(path), error=str(error))
                self._read[path] = None
        return self._read[path]
