"""Files that a user writes for a command: a fleet, a catalog, a list of changes."""

from pathlib import Path
from typing import Any

from dra_shared.errors import UserError


def read_yaml(path: Path) -> Any:
    """The value of the file's first document.

    Raises:
        UserError: it cannot be read, or is no YAML; the message names it.
    """
    from dra_shared.boundedfiles import read_file
    from dra_shared.yamltext import YamlError, load

    try:
        return load(read_file(path)).value
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except YamlError as error:
        raise UserError(f"{path} is no valid YAML: {error}") from error
