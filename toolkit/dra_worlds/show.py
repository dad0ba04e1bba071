"""Print answers as JSON or YAML."""

import msgspec
import orjson
from dra_scheduler.plan.answers import complete
from dra_shared.errors import UserError


def format_answer(answer: msgspec.Struct, output: str) -> str:
    """Return the answer as JSON or YAML.

    Raises:
        UserError: there is no such output.
    """
    value = complete(answer)
    if output == "json":
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    if output == "yaml":
        import yaml

        return str(yaml.safe_dump(value, sort_keys=False)).rstrip()
    raise UserError(f"unknown output {output!r}: choose json, yaml or html, or leave it out", 2)
