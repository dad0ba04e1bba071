"""CDI spec files: written atomically, and named so that files of other writers are not touched (pkg/cdi/spec.go)."""

import functools
import os
import tempfile
from collections import OrderedDict
from collections.abc import Container
from pathlib import Path
from typing import Any

import msgspec
import yaml
from dra_shared.log import logger
from dra_shared.yamltext import YamlError, load

from dra_driverkit.cdi.spec import ContainerEdits, Spec, SpecError, minimum_version, to_document
from dra_driverkit.files import check_space

# The number of parsed specs that are cached by their text. A spec is usually read soon after it was written, when
# the containers of the pod are created.
_MOST_WRITTEN = 256
_written: OrderedDict[bytes, Spec] = OrderedDict()
_log = logger(__name__)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def transient_name(vendor: str, class_: str, transient_id: str) -> str:
    """Return the file name, without suffix, of the spec for ``transient_id`` (a claim's UID)."""
    return f"{vendor}-{class_}_{transient_id.replace('/', '_')}"


def write_spec(directory: Path, name: str, spec: Spec, *, durable: bool = True) -> Path:
    """Write ``spec`` to ``directory/name.yaml`` with an atomic rename.

    With ``durable`` the file is synced to the disk and survives a power cut. Without it the file may be lost,
    as with upstream's library. The version is set to the lowest that can express the spec.

    Raises:
        SpecError: the spec breaks the specification; nothing is written.
        OSError: the directory cannot be written to.
    """
    spec = msgspec.structs.replace(spec, cdi_version=minimum_version(spec))
    spec.validate()
    check_space(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.yaml"
    text = _text(spec)
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _written[text] = spec
    if len(_written) > _MOST_WRITTEN:
        _written.popitem(last=False)
    return path


def _text(spec: Spec) -> bytes:
    own = to_document(msgspec.structs.replace(spec, container_edits=ContainerEdits()))
    own.pop("containerEdits", None)
    return b"---\n" + _dump(own) + _common(spec.container_edits)


@functools.lru_cache(maxsize=64)
def _common(edits: ContainerEdits) -> bytes:
    """Return the last part of a spec's text, the common edits of its devices, which is the same for all claims."""
    plain = msgspec.to_builtins(edits)
    return _dump({"containerEdits": plain}) if plain else b""


def _dump(document: dict[str, Any]) -> bytes:
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=200)
    return text.encode()


def remove_spec(directory: Path, name: str) -> None:
    """Remove the spec file ``name`` if it exists."""
    (directory / f"{name}.yaml").unlink(missing_ok=True)


def remove_unknown_specs(directory: Path, vendor: str, class_: str, known: Container[str]) -> None:
    """Remove transient specs with unknown IDs, and partially written files.

    A driver calls it at its start, because nothing else would ever remove them.
    """
    prefix = transient_name(vendor, class_, "")
    for path in directory.glob(f"{prefix}*.yaml"):
        if path.stem.removeprefix(prefix) not in known:
            _log.warning("removing the CDI file of a claim that is not in the checkpoint", path=str(path))
            path.unlink(missing_ok=True)
    for path in directory.glob(f".{prefix}*.tmp"):
        _log.warning("removing a CDI file that was not written to its end", path=str(path))
        path.unlink(missing_ok=True)


def read_spec(path: Path) -> Spec:
    """Read the spec in a YAML or JSON file.

    Raises:
        SpecError: the file is not a valid CDI spec.
        OSError: it cannot be read.
    """
    content = path.read_bytes()
    if content in _written:
        return _written[content]
    try:
        spec = msgspec.convert(load(content).value, Spec)
    except (YamlError, msgspec.ValidationError) as error:
        raise SpecError(f"{path}: {error}") from error
    try:
        spec.validate()
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from error
    return spec
