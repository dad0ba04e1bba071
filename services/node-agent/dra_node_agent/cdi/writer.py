"""CDI spec files: written whole or not at all, named so that no other writer's are touched (pkg/cdi/spec.go)."""

import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import yaml
from dra_shared.yamltext import YamlError, load

from dra_node_agent.cdi.spec import Spec, SpecError, minimum_version, to_document
from dra_node_agent.files import check_space

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def transient_name(vendor: str, class_: str, transient_id: str) -> str:
    """The file name, without suffix, of the spec made for ``transient_id`` (a claim's UID)."""
    return f"{vendor}-{class_}_{transient_id.replace('/', '_')}"


def write_spec(directory: Path, name: str, spec: Spec, *, durable: bool = True) -> Path:
    """Write ``spec`` to ``directory/name.yaml`` by an atomic rename.

    With ``durable`` the file survives a power cut from then on; without, as upstream's library has it, it may be lost.
    The version is set to the lowest that can express the spec.

    Raises:
        SpecError: the spec breaks the specification; nothing is written.
        OSError: the directory cannot be written to.
    """
    spec = msgspec.structs.replace(spec, cdi_version=minimum_version(spec))
    spec.validate()
    check_space(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.yaml"
    text = "---\n" + yaml.dump(to_document(spec), Dumper=_DUMPER, sort_keys=False, width=200)
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def remove_spec(directory: Path, name: str) -> None:
    """Remove the spec file ``name``, if there is one."""
    (directory / f"{name}.yaml").unlink(missing_ok=True)


def read_spec(path: Path) -> Spec:
    """The spec in a YAML or JSON file.

    Raises:
        SpecError: the file is not a valid CDI spec.
        OSError: it cannot be read.
    """
    try:
        spec = msgspec.convert(load(path.read_bytes()).value, Spec)
    except (YamlError, msgspec.ValidationError) as error:
        raise SpecError(f"{path}: {error}") from error
    try:
        spec.validate()
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from error
    return spec
