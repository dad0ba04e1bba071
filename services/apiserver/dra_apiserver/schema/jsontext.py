"""Go's error messages for malformed JSON."""

_SPACE = b" \t\r\n"
_ESCAPES = b'"\\/bfnrtu'
_ENDS = {ord("{"): ord("}"), ord("["): ord("]")}
_AFTER = {ord("{"): "after object key:value pair", ord("["): "after array element"}
# Go allows 10,000, orjson 1,024.
_MOST_LEVELS = 1024
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


def syntax_error(data: bytes) -> str:
    """Return the message of Go's decoder for malformed ``data``."""
    try:
        position = _skip(data, _document(data))
        if position < len(data):
            raise _Bad(data, position, "after top-level value")
    except _End:
        return "unexpected end of JSON input"
    except _Bad as error:
        return str(error)
    return "invalid JSON document"


class _End(Exception):
    pass


class _Bad(Exception):
    def __init__(self, data: bytes, position: int, context: str) -> None:
        super().__init__(f"invalid character {_quote_byte(data, position)} {context}")


def _quote_byte(data: bytes, position: int) -> str:
    byte = data[position]
    if byte == ord("'"):
        return r"'\''"
    if byte == ord('"'):
        return "'\"'"
    if byte in (9, 10, 13):
        return "'" + {9: "\\t", 10: "\\n", 13: "\\r"}[byte] + "'"
    if byte < 32 or byte == 127:
        return f"'\\x{byte:02x}'"
    return f"'{chr(byte)}'"


def _skip(data: bytes, position: int) -> int:
    while position < len(data) and data[position] in _SPACE:
        position += 1
    return position


def _at(data: bytes, position: int) -> int:
    if position >= len(data):
        raise _End
    return data[position]


def _document(data: bytes) -> int:
    """Return the index just past the JSON value at the start of ``data``."""
    levels: list[int] = []
    position = _skip(data, 0)
    while True:
        byte = _at(data, position)
        if byte in _ENDS:
            if len(levels) >= _MOST_LEVELS:
                raise _Bad(data, position, "exceeded max depth")
            position = _skip(data, position + 1)
            if _at(data, position) != _ENDS[byte]:
                levels.append(byte)
                position = _to_value(data, position, byte)
                continue
            position += 1
        else:
            position = _scalar(data, position)
        while levels:
            position = _skip(data, position)
            byte = _at(data, position)
            if byte == ord(","):
                position = _to_value(data, _skip(data, position + 1), levels[-1])
                break
            if byte != _ENDS[levels[-1]]:
                raise _Bad(data, position, _AFTER[levels[-1]])
            levels.pop()
            position += 1
        else:
            return position


def _to_value(data: bytes, position: int, opening: int) -> int:
    """Return the index of the next value in a list or object, which ``opening`` opened.

    In an object, it is after the key.
    """
    if opening == ord("["):
        return position
    if _at(data, position) != ord('"'):
        raise _Bad(data, position, "looking for beginning of object key string")
    position = _skip(data, _string(data, position + 1))
    if _at(data, position) != ord(":"):
        raise _Bad(data, position, "after object key")
    return _skip(data, position + 1)


def _scalar(data: bytes, position: int) -> int:
    byte = _at(data, position)
    if byte == ord('"'):
        return _string(data, position + 1)
    if byte in _LITERALS:
        return _literal(data, position, _LITERALS[byte])
    if byte == ord("-") or chr(byte).isdecimal():
        return _number(data, position)
    raise _Bad(data, position, "looking for beginning of value")


def _literal(data: bytes, position: int, word: bytes) -> int:
    for offset in range(1, len(word)):
        if _at(data, position + offset) != word[offset]:
            raise _Bad(
                data,
                position + offset,
                f"in literal {word.decode()} (expecting '{chr(word[offset])}')",
            )
    return position + len(word)


def _digits(data: bytes, position: int, context: str) -> int:
    if not chr(_at(data, position)).isdecimal():
        raise _Bad(data, position, context)
    while position < len(data) and chr(data[position]).isdecimal():
        position += 1
    return position


def _number(data: bytes, position: int) -> int:
    if data[position] == ord("-"):
        position += 1
        if not chr(_at(data, position)).isdecimal():
            raise _Bad(data, position, "in numeric literal")
    position = position + 1 if data[position] == ord("0") else _digits(data, position, "in numeric literal")
    if position < len(data) and data[position] == ord("."):
        position = _digits(data, position + 1, "after decimal point in numeric literal")
    if position < len(data) and data[position] in b"eE":
        position += 1
        if _at(data, position) in b"+-":
            position += 1
        position = _digits(data, position, "in exponent of numeric literal")
    return position


def _string(data: bytes, position: int) -> int:
    while True:
        byte = _at(data, position)
        if byte == ord('"'):
            return position + 1
        if byte < 32:
            raise _Bad(data, position, "in string literal")
        position += 1
        if byte == ord("\\"):
            escape = _at(data, position)
            if escape not in _ESCAPES:
                raise _Bad(data, position, "in string escape code")
            position += 1
            if escape == ord("u"):
                for _ in range(4):
                    if chr(_at(data, position)) not in "0123456789abcdefABCDEF":
                        raise _Bad(data, position, "in \\u hexadecimal character escape")
                    position += 1
