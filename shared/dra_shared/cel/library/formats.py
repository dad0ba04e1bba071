"""Named formats: ``format.dns1123Label().validate(name)``.

Mirrors k8s.io/apiserver/pkg/cel/library/format.go.
"""

import datetime
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from dra_shared.cel.declarations import Estimate, Function, Implementation, Node, function, overload
from dra_shared.cel.library.costs import REGEX, STRING, size, size_range
from dra_shared.cel.ranges import factor
from dra_shared.cel.url import Url, UrlError
from dra_shared.cel.values import NONE, NamedFormat, OptionalValue

#: The length that cost estimates use for the regular expression of a format.
_REGEX_SIZE: Final = 128

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATETIME: Final = re.compile(r"(?i)([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_LABEL_MESSAGE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_1035_MESSAGE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_MESSAGE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_MESSAGE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
Validate = Callable[[str], list[str]]


def _name_rule(
    pattern: re.Pattern[str], longest: int, message: str, *, prefix: bool = False, unit: str = "characters"
) -> Validate:
    def validate(text: str) -> list[str]:
        if prefix and text.endswith("-") and len(text) > 1:
            # Upstream removes bytes, not characters.
            text = text.encode()[:-2].decode(errors="replace") + "a"
        found = [f"must be no more than {longest} {unit}"] if len(text.encode()) > longest else []
        if not pattern.fullmatch(text):
            if message is _LABEL_MESSAGE and _SUBDOMAIN.fullmatch(text):
                found.append("must not contain dots")
            else:
                found.append(message)
        return found

    return validate


def _qualified_name(text: str) -> list[str]:
    found: list[str] = []
    parts = text.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_QUALIFIED_MESSAGE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            domain = _name_rule(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE, unit="bytes")(parts[0])
            found += [f"prefix part {message}" for message in domain]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _QUALIFIED.fullmatch(name):
        found.append(f"name part {_QUALIFIED_MESSAGE}")
    return found


def _label_value(text: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(text.encode()) > 63 else []
    if text and not _QUALIFIED.fullmatch(text):
        found.append(_LABEL_VALUE_MESSAGE)
    return found


def _uri(text: str) -> list[str]:
    try:
        Url.check(text)
    except UrlError as error:
        return [str(error)]
    return []


def _when(valid: Callable[[str], bool], message: str) -> Validate:
    def validate(text: str) -> list[str]:
        return [] if valid(text) else [message]

    return validate


def _is_base64(text: str) -> bool:
    # Upstream rejects the empty string.
    return _BASE64.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    day, separator, time = text[:10], text[10:11], text[11:]
    match = _DATETIME.fullmatch(time)
    return (
        separator.upper() == "T"
        and _is_date(day)
        and match is not None
        and int(match[1]) < 24
        and int(match[2]) < 60
        and int(match[3]) < 60
    )


_FORMATS: Final = {
    name: NamedFormat(shown, validate, size)
    for name, shown, validate, size in (
        ("dns1123Label", "DNS1123Label", _name_rule(_LABEL, 63, _LABEL_MESSAGE), 30),
        ("dns1123Subdomain", "DNS1123Subdomain", _name_rule(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE), 60),
        ("dns1035Label", "DNS1035Label", _name_rule(_LABEL_1035, 63, _LABEL_1035_MESSAGE), 30),
        ("qualifiedName", "QualifiedName", _qualified_name, 60),
        ("dns1123LabelPrefix", "DNS1123LabelPrefix", _name_rule(_LABEL, 63, _LABEL_MESSAGE, prefix=True), 30),
        (
            "dns1123SubdomainPrefix",
            "DNS1123SubdomainPrefix",
            _name_rule(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE, prefix=True),
            60,
        ),
        (
            "dns1035LabelPrefix",
            "DNS1035LabelPrefix",
            _name_rule(_LABEL_1035, 63, _LABEL_1035_MESSAGE, prefix=True),
            30,
        ),
        ("labelValue", "LabelValue", _label_value, 40),
        ("uri", "URI", _uri, 1103),
        (
            "uuid",
            "uuid",
            _when(lambda text: bool(_UUID.fullmatch(text)), "does not match the UUID format"),
            70,
        ),
        ("byte", "byte", _when(_is_base64, "invalid base64"), 84),
        ("date", "date", _when(_is_date, "invalid date"), 71),
        ("datetime", "datetime", _when(_is_datetime, "invalid datetime"), 71),
    )
}


def _named_format(name: str) -> OptionalValue:
    found = _FORMATS.get(name)
    return NONE if found is None else OptionalValue(found)


def _validate(named: NamedFormat, text: str) -> OptionalValue:
    problems = named.validate(text)
    return OptionalValue(problems) if problems else NONE


def _constant(value: Any) -> Implementation:
    return lambda: value


def _validation(args: Sequence[Any], result: Any) -> int:
    named = args[0]
    if not isinstance(named, NamedFormat):
        return 1
    text = math.ceil((1.0 + float(size(args[1]))) * STRING)
    return text * math.ceil(float(named.max_regex_size) * REGEX)


def _estimate_validation(target: Node | None, args: list[Node]) -> Estimate:
    return Estimate(factor(factor(size_range(args[0]), STRING), _REGEX_SIZE * REGEX))


FUNCTIONS: Final[tuple[Function, ...]] = (
    *(
        function(f"format.{name}", overload(f"format.{name}() Format", _constant(value)))
        for name, value in _FORMATS.items()
    ),
    function(
        "validate",
        overload(".format-validate(Format, string) optional<list<string>>", _validate),
        cost=_validation,
        estimate=_estimate_validation,
    ),
    function("format.named", overload("format-named(string) optional<Format>", _named_format)),
)
