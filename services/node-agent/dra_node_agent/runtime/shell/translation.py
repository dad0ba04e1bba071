"""`tr` of coreutils, in the C locale, which containers have."""

import string

from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare
from dra_node_agent.runtime.shell.patterns import decode, encode
from dra_node_agent.runtime.shell.world import Process

_CLASSES = {
    "alnum": string.digits + string.ascii_uppercase + string.ascii_lowercase,
    "alpha": string.ascii_uppercase + string.ascii_lowercase,
    "blank": "\t ",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "digit": string.digits,
    "graph": "".join(map(chr, range(33, 127))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(32, 127))),
    "punct": "".join(sorted(string.punctuation)),
    "space": "\t\n\v\f\r ",
    "upper": string.ascii_uppercase,
    "xdigit": string.digits + "ABCDEFabcdef",
}
_ESCAPES = {"n": 10, "t": 9, "r": 13, "\\": 92, "a": 7, "b": 8, "f": 12, "v": 11}
_SYNTAX = Syntax(
    flags="cCdst",
    long={"complement": "c", "delete": "d", "squeeze-repeats": "s", "truncate-set1": "t"},
    leading=2,
)


async def _tr(process: Process, given: Given) -> int:
    deletes, squeezes = "d" in given, "s" in given
    sets = given.operands
    if not sets:
        raise UsageError("missing operand")
    needed = 2 if deletes == squeezes else 1
    if len(sets) < needed:
        why = "deleting and squeezing" if deletes else "translating"
        raise UsageError(f"missing operand after ‘{sets[0]}’: two strings must be given when {why}")
    if len(sets) > 2 or (deletes and not squeezes and len(sets) > 1):
        raise UsageError(f"extra operand ‘{sets[-1]}’")
    first = _members(sets[0])
    if given.last("cC"):
        known = set(first)
        first = [byte for byte in range(256) if byte not in known]
    data = encode(process.stdin)
    last = first
    if len(sets) > 1:
        last = _members(sets[1], len(first))
    if deletes:
        data = data.translate(None, bytes(set(first)))
    elif len(sets) > 1:
        if given.last("cC") and "[:" in sets[0] and len(set(last)) > 1:
            raise UsageError(
                "when translating with complemented character classes,"
                " string2 must map all characters in the domain to one"
            )
        data = data.translate(_table(first, last, "t" in given))
    if squeezes:
        data = _squeeze(data, frozenset(last))
    process.out(decode(data))
    return 0


def _table(first: list[int], second: list[int], truncate: bool) -> bytes:
    if not second:
        raise UsageError("when not truncating set1, string2 must be non-empty")
    table = list(range(256))
    pairs = first[: len(second)] if truncate else first
    for place, byte in enumerate(pairs):
        table[byte] = second[min(place, len(second) - 1)]
    return bytes(table)


def _squeeze(data: bytes, members: frozenset[int]) -> bytes:
    return bytes(byte for i, byte in enumerate(data) if not (i and byte == data[i - 1] and byte in members))


def _members(text: str, length: int = 0) -> list[int]:
    """Return the bytes of a set. A ``[x*]`` in it fills the set up to ``length``."""
    data = encode(text)
    found: list[int] = []
    fill: tuple[int, int] | None = None
    index = 0
    while index < len(data):
        if data[index : index + 2] == b"[:" and (end := data.find(b":]", index)) > 0:
            name = decode(data[index + 2 : end])
            if name not in _CLASSES:
                raise UsageError(f"invalid character class ‘{name}’")
            found += _CLASSES[name].encode()
            index = end + 2
            continue
        if data[index : index + 2] == b"[=" and data[index + 3 : index + 5] == b"=]":
            found.append(data[index + 2])
            index += 5
            continue
        if data[index : index + 1] == b"[" and (repeat := _repeat(data, index)) is not None:
            byte, count, index = repeat
            if count:
                found += [byte] * min(count, 1 << 16)
            else:
                fill = (len(found), byte)
            continue
        low, index = _one(data, index)
        if data[index : index + 1] == b"-" and index + 1 < len(data):
            high, index = _one(data, index + 1)
            if high < low:
                raise UsageError(
                    f"range-endpoints of ‘{chr(low)}-{chr(high)}’ are in reverse collating sequence order"
                )
            found += range(low, high + 1)
        else:
            found.append(low)
    if fill is not None:
        place, byte = fill
        found[place:place] = [byte] * max(length - len(found), 0)
    return found


def _one(data: bytes, index: int) -> tuple[int, int]:
    """Return the byte at a place, and the place after it."""
    if data[index : index + 1] != b"\\" or index + 1 == len(data):
        return data[index], index + 1
    digits = index + 1
    while digits < min(len(data), index + 4) and chr(data[digits]) in string.octdigits:
        digits += 1
    if digits > index + 1:
        return int(data[index + 1 : digits], 8) & 0xFF, digits
    return _ESCAPES.get(chr(data[index + 1]), data[index + 1]), index + 2


def _repeat(data: bytes, index: int) -> tuple[int, int, int] | None:
    """Parse ``[x*5]`` and ``[x*]``. Return the byte, its count (0: as many as needed) and the place after it."""
    if index + 1 >= len(data):
        return None
    byte, after = _one(data, index + 1)
    end = data.find(b"]", after)
    if data[after : after + 1] != b"*" or end < 0:
        return None
    digits = data[after + 1 : end]
    if digits and not digits.isdigit():
        return None
    return byte, int(digits or b"0", 8 if digits.startswith(b"0") else 10), end + 1


tr = declare(_SYNTAX)(_tr)
