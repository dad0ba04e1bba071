"""Read the YAML files of commands, such as a fleet, a catalog or a list of changes."""

from pathlib import Path
from typing import Any

from dra_shared.errors import UserError


def read_yaml(path: Path) -> Any:
    """Return the value of the file's first document.

    Raises:
        UserError: the file cannot be read, or is not YAML; the message names it.
    """
    from dra_shared.boundedfiles import read_file
    from dra_shared.yamltext import YamlError, load

    try:
        return load(read_file(path)).value
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except YamlError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
