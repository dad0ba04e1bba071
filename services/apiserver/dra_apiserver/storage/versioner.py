"""Resource versions as numbers (apiserver's `storage/api_object_versioner.go`)."""

from __future__ import annotations

import re

from dra_shared.numerals import integer

from dra_apiserver.errors import quote

_UINT = re.compile(r"[0-9]+").fullmatch


def parse_resource_version(text: str) -> int:
    """Return a resourceVersion as a number; 0 for "".

    Raises:
        ValueError: it is not a number. The message is Go's.
    """
    if not text:
        return 0
    if not _UINT(text):
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    number = integer(text)
    if number >= 2**64:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return number
