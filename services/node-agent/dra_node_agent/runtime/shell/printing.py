"""Programs that print their arguments: `echo`, `printf`, `seq` and `date`."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare
from dra_node_agent.runtime.shell.world import Process, Program

_HOLE = re.compile(
    r"%(?:%|(?P<flags>[-+ 0#]*)(?P<width>\d{1,4}|\*)?(?:\.(?P<precision>\d{0,3}|\*))?(?P<kind>[a-zA-Z])|[^%]?)"
)
_ESCAPES = {
    "n": "\n", "t": "\t", "\\": "\\", "r": "\r", "a": "\a", "e": "\x1b", "b": "\b", "f": "\f", "v": "\v", '"': '"',
}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:0[0-7]{0,3}|[1-7][0-7]{0,2}|x[0-9a-fA-F]{1,2}|[ntraebfv\\\"c])")
_MOST_NUMBERS = 100_000


class _Stop(Exception):
    """The escape ``\\c``: nothing more is printed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


def _unescape(text: str) -> str:
    """Replace escapes. Raises _Stop with the text before ``\\c``."""
    pieces, index = [], 0
    for match in _ESCAPE.finditer(text):
        pieces.append(text[index : match.start()])
        index = match.end()
        body = match[0][1:]
        if body == "c":
            raise _Stop("".join(pieces))
        if body[0] == "x":
            pieces.append(chr(int(body[1:], 16)))
        else:
            pieces.append(chr(int(body, 8) & 0xFF) if body[0].isdigit() else _ESCAPES[body])
    return "".join(pieces) + text[index:]


async def _echo(process: Process) -> int:
    words = list(process.argv[1:])
    newline, escapes = True, False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags = words.pop(0)
        newline, escapes = newline and "n" not in flags, escapes or "e" in flags
    text = " ".join(words)
    try:
        process.out((_unescape(text) if escapes else text) + ("\n" if newline else ""))
    except _Stop as stop:
        process.out(stop.text)
    return 0


class _Printf:
    """A run of `printf`. It uses the format until no argument is left."""

    def __init__(self, process: Process, form: str, values: list[str]) -> None:
        self._process, self._form, self._values = process, form, values
        self._taken = False
        self.status = 0

    def run(self) -> None:
        while True:
            self._taken = False
            try:
                self._process.out(_HOLE.sub(self._fill, _unescape(self._form)))
            except _Stop as stop:
                self._process.out(_HOLE.sub(self._fill, stop.text))
                return
            if not self._values or not self._taken:
                return

    def _take(self) -> str:
        self._taken = True
        return self._values.pop(0) if self._values else ""

    def _fill(self, match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        kind = match["kind"]
        if kind is None or kind not in "diouxXeEfFgGscbq":
            raise UsageError(f"{match[0]}: invalid directive, or not simulated")
        width = self._take() if match["width"] == "*" else match["width"] or ""
        precision = self._take() if match["precision"] == "*" else match["precision"]
        form = f"%{match['flags']}{width}" + ("" if precision is None else f".{precision}")
        if not re.fullmatch(r"%[-+ 0#]*-?\d{0,4}(?:\.\d{0,3})?", form):
            raise UsageError(f"{match[0]}: invalid field width")
        value = self._take()
        if kind in "diouxX":
            return str(f"{form}{'d' if kind in 'iu' else kind}" % self._integer(value))
        if kind in "eEfFgG":
            return str(f"{form}{kind}" % self._float(value))
        if kind == "q":
            raise UsageError("%q is not simulated")
        if kind == "b":
            value = _unescape(value)
        return str(f"{form}s" % (value[:1] if kind == "c" else value))

    def _integer(self, text: str) -> int:
        if text[:1] in ("'", '"'):
            return ord(text[1:2] or "\0")
        match = re.fullmatch(r"\s*([-+]?)(0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,21}|[1-9]\d{0,18})", text)
        if match is None:
            if text:
                self._invalid(text)
            found = re.match(r"\s*[-+]?\d{1,18}", text)
            return int(found[0]) if found else 0
        digits = match[2]
        number = int(digits, 16 if digits[:2].lower() == "0x" else 8 if digits[0] == "0" else 10)
        return -number if match[1] == "-" else number

    def _float(self, text: str) -> float:
        try:
            return float(text or "0")
        except ValueError:
            self._invalid(text)
            return 0.0

    def _invalid(self, text: str) -> None:
        self._process.err(f"printf: {text}: invalid number\n")
        self.status = 1


async def _printf(process: Process) -> int:
    words = list(process.argv[1:])
    if words[:1] == ["--"]:
        words.pop(0)
    elif words and words[0].startswith("-") and len(words[0]) > 1:
        process.err(f"printf: {words[0][:2]}: invalid option\n")
        return 2
    if not words:
        process.err("printf: usage: printf format [arguments]\n")
        return 2
    run = _Printf(process, words[0], words[1:])
    try:
        run.run()
    except UsageError as error:
        process.complain(f"printf: {error}\n")
        return 1
    except _Stop as stop:
        process.out(stop.text)
    return run.status


async def _seq(process: Process) -> int:
    words, separator, equal_width = list(process.argv[1:]), "\n", False
    # A negative number is not an option.
    while words and words[0].startswith("-") and not re.match(r"-[\d.]", words[0]):
        word = words.pop(0)
        if word in ("-w", "--equal-width"):
            equal_width = True
        elif word.startswith(("-s", "--separator=")):
            value = word[2:] if word.startswith("-s") else word.partition("=")[2]
            separator = value or (words.pop(0) if words else "\n")
        elif word != "--":
            process.complain(f"seq: option {word} is not simulated\n")
            return 1
    if not 1 <= len(words) <= 3:
        process.err("seq: missing operand\n" if not words else f"seq: extra operand '{words[3]}'\n")
        return 1
    try:
        numbers = [_decimal(word) for word in words]
        shown = list(_numbers(numbers))
    except UsageError as error:
        process.err(f"seq: {error}\n")
        return 1
    if equal_width:
        width = max(map(len, shown), default=0)
        shown = [text.zfill(width) for text in shown]
    process.out(separator.join(shown) + ("\n" if shown else ""))
    return 0


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or len(text) > 30:
        raise UsageError(f"invalid floating point argument: '{text}'")
    return number


def _numbers(given: list[Decimal]) -> Iterator[str]:
    first = given[0] if len(given) > 1 else Decimal(1)
    step = given[1] if len(given) > 2 else Decimal(1)
    if not step:
        raise UsageError("invalid Zero increment value: '0'")
    places = max(0, *(-int(number.as_tuple().exponent) for number in (first, step)))
    for turn in range(_MOST_NUMBERS):
        number = first + turn * step
        if (number > given[-1]) if step > 0 else (number < given[-1]):
            return
        yield f"{number:.{places}f}"


_FORM = "%a %b %e %H:%M:%S UTC %Y"
_ISO = {
    "": "%Y-%m-%d", "date": "%Y-%m-%d", "hours": "%Y-%m-%dT%H+00:00", "minutes": "%Y-%m-%dT%H:%M+00:00",
    "seconds": "%Y-%m-%dT%H:%M:%S+00:00", "ns": "%Y-%m-%dT%H:%M:%S,%N+00:00",
}  # fmt: skip
_NANOSECONDS = re.compile(r"%(-?)(\d?)N")


def date(now: Callable[[], datetime]) -> Program:
    """Return `date`, which shows the time that ``now`` returns. Containers are in UTC."""

    @declare(
        Syntax(
            flags="uR",
            optional="I",
            long={"utc": "u", "universal": "u", "iso-8601": "I", "rfc-email": "R"},
        )
    )
    async def program(process: Process, given: Given) -> int:
        moment = now().astimezone(UTC)
        forms = [word[1:] for word in given.operands if word.startswith("+")]
        if len(forms) < len(given.operands):
            raise UsageError("setting the time is not simulated")
        form = forms[-1] if forms else _FORM
        if given.values("I"):
            if given.value("I") not in _ISO:
                raise UsageError(f"invalid argument ‘{given.value('I')}’ for ‘--iso-8601’")
            form = _ISO[given.value("I")]
        if "R" in given:
            form = "%a, %d %b %Y %H:%M:%S +0000"
        nanoseconds = f"{moment.microsecond * 1000:09}"
        form = _NANOSECONDS.sub(lambda match: nanoseconds[: int(match[2] or 9)], form)
        process.out(moment.strftime(form.replace("%s", str(int(moment.timestamp())))) + "\n")
        return 0

    return program


#: By name.
PRINTING: dict[str, Program] = {"echo": _echo, "printf": _printf, "seq": _seq}
