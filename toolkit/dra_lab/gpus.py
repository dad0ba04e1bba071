"""The GPUs of simulated nodes, checked before anything starts."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dra_shared.errors import UserError
from dra_worlds.fleet import DEFAULT_GPUS

# They are the machine's own: its node agent looks whether there are any.
_HOST = "host"


def check_gpus(wanted: Iterable[str], folders: Sequence[str] = ()) -> None:
    """Refuse GPUs that no node can have; ``folders`` are those with models besides the known ones.

    Raises:
        UserError: the text is malformed, or there is no such model or layout; the message says what there is.
    """
    texts = set(wanted) - {_HOST}
    if texts <= {DEFAULT_GPUS} and not folders:
        return
    # What knows the models takes longer to import than most commands, and most clusters have the default.
    from dra_node_agent.nvml.node import parse_gpus

    for text in sorted(texts):
        try:
            parse_gpus(text, "", tuple(map(Path, folders)))
        except ValueError as error:
            raise UserError(str(error), 2) from error
