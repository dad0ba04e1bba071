"""Request bodies in YAML.

Parsing a large body takes seconds, so a thread does it before the request's handler continues.
"""

from __future__ import annotations

import asyncio

import orjson
from dra_shared.yamltext import Document, YamlError, copy_deep, load


class _Read(bytes):
    """A body with its parsed value or error."""

    found: Document | YamlError


async def read_ahead(body: bytes, content_type: str) -> bytes:
    """Parse the body in a thread, so that :func:`document` returns at once."""
    if content_type.startswith("application/apply-patch") and _is_json(body):
        return body  # The body is JSON and is parsed by the handler.
    read = _Read(body)
    try:
        read.found = await asyncio.to_thread(load, body)
    except YamlError as error:
        read.found = error
    return read


def _is_json(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


def document(body: bytes) -> Document:
    """Return the first document. The caller may modify it.

    Raises:
        YamlError: see :func:`dra_shared.yamltext.load`.
    """
    if not isinstance(body, _Read):
        return load(body)
    if isinstance(body.found, YamlError):
        raise body.found
    return Document(copy_deep(body.found.value), body.found.repeated)
