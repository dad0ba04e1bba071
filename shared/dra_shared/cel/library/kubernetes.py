"""Kubernetes' own libraries: quantities, versions, addresses, URLs and named formats."""

import datetime
import re
from collections.abc import Callable
from typing import Any, Final

from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library import Implementation
from dra_shared.cel.network import AddressError, Cidr, Ip
from dra_shared.cel.url import Url, UrlError
from dra_shared.cel.values import NO_OVERLOAD, NONE, DerivedQuantity, NamedFormat, OptionalValue
from dra_shared.quantity import Format, Quantity, QuantityError
from dra_shared.semver import Semver, SemverError

_MAX_INT: Final = (1 << 63) - 1


def quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _derived(value: Quantity) -> DerivedQuantity:
    return DerivedQuantity(value.number, value.exponent, value.format, decimal=value.decimal)


def _as_int(value: Quantity) -> int:
    number = value.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _whole(number: int) -> Quantity:
    return Quantity(number, 0, Format.DECIMAL_EXPONENT)


def semver(text: str, normalize: bool = False) -> Semver:
    try:
        return Semver.parse_normalized(text) if normalize else Semver.parse(text)
    except SemverError as error:
        raise EvaluationError(str(error)) from None


def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _signed(number: int) -> int:
    return number if number <= _MAX_INT else number - (1 << 64)


def ip(text: str) -> Ip:
    try:
        return Ip.parse(text)
    except AddressError as error:
        raise EvaluationError(str(error)) from None


def is_ip(text: str) -> bool:
    try:
        Ip.parse(text)
    except AddressError:
        return False
    return True


def cidr(text: str) -> Cidr:
    try:
        return Cidr.parse(text)
    except AddressError as error:
        raise EvaluationError(f"network address parse error during conversion from string: {error}") from None


def is_cidr(text: str) -> bool:
    try:
        Cidr.parse(text)
    except AddressError:
        return False
    return True


def _contains_ip_text(network: Cidr, text: str) -> bool:
    # An unparsable address surfaces as a missing overload: upstream asks for the type of the error value.
    try:
        return network.contains_ip(Ip.parse(text))
    except AddressError:
        raise EvaluationError(NO_OVERLOAD) from None


def url(text: str) -> Url:
    try:
        return Url.parse(text)
    except UrlError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    try:
        Url.check(text)
    except UrlError:
        return False
    return True


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


def _named(
    pattern: re.Pattern[str], longest: int, message: str, *, prefix: bool = False, unit: str = "characters"
) -> Validate:
    def validate(text: str) -> list[str]:
        if prefix and text.endswith("-") and len(text) > 1:
            # Upstream cuts bytes.
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
            domain = _named(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE, unit="bytes")(parts[0])
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
    # Nothing at all is no base64 upstream.
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


FORMATS: Final = {
    name: NamedFormat(shown, validate, size)
    for name, shown, validate, size in (
        ("dns1123Label", "DNS1123Label", _named(_LABEL, 63, _LABEL_MESSAGE), 30),
        ("dns1123Subdomain", "DNS1123Subdomain", _named(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE), 60),
        ("dns1035Label", "DNS1035Label", _named(_LABEL_1035, 63, _LABEL_1035_MESSAGE), 30),
        ("qualifiedName", "QualifiedName", _qualified_name, 60),
        ("dns1123LabelPrefix", "DNS1123LabelPrefix", _named(_LABEL, 63, _LABEL_MESSAGE, prefix=True), 30),
        (
            "dns1123SubdomainPrefix",
            "DNS1123SubdomainPrefix",
            _named(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE, prefix=True),
            60,
        ),
        (
            "dns1035LabelPrefix",
            "DNS1035LabelPrefix",
            _named(_LABEL_1035, 63, _LABEL_1035_MESSAGE, prefix=True),
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
    found = FORMATS.get(name)
    return NONE if found is None else OptionalValue(found)


def _validate(named: NamedFormat, text: str) -> OptionalValue:
    problems = named.validate(text)
    return OptionalValue(problems) if problems else NONE


def _constant(value: Any) -> Implementation:
    return lambda: value


def _attribute(name: str) -> Implementation:
    return lambda value: getattr(value, name)


def _family(address: Ip) -> int:
    return address.family


OVERLOADS: Final[dict[str, Implementation]] = {
    "string_to_quantity": quantity,
    "is_quantity_string": is_quantity,
    "quantity_sign": Quantity.sign,
    "quantity_is_greater_than": lambda a, b: a.compare(b) == 1,
    "quantity_is_less_than": lambda a, b: a.compare(b) == -1,
    "quantity_compare_to": Quantity.compare,
    "quantity_get_float": Quantity.as_approximate_float,
    "quantity_get_int": _as_int,
    "quantity_is_integer": lambda value: value.as_int64() is not None,
    "quantity_add": lambda a, b: _derived(a.add(b)),
    "quantity_add_int": lambda a, b: _derived(a.add(_whole(b))),
    "quantity_sub": lambda a, b: _derived(a.sub(b)),
    "quantity_sub_int": lambda a, b: _derived(a.sub(_whole(b))),
    "string_to_semver": semver,
    "string_bool_to_semver": semver,
    "is_semver_string": is_semver,
    "is_semver_string_bool": is_semver,
    "semver_is_greater_than": lambda a, b: a.compare(b) == 1,
    "semver_is_less_than": lambda a, b: a.compare(b) == -1,
    "semver_compare_to": Semver.compare,
    "semver_major": lambda value: _signed(value.major),
    "semver_minor": lambda value: _signed(value.minor),
    "semver_patch": lambda value: _signed(value.patch),
    "string_to_ip": ip,
    "cidr_ip": lambda network: Ip(network.address),
    "ip_family": _family,
    "ip_is_canonical": lambda text: str(ip(text)) == text,
    "ip_is_unspecified": _attribute("is_unspecified"),
    "ip_is_loopback": _attribute("is_loopback"),
    "ip_is_link_local_multicast": _attribute("is_link_local_multicast"),
    "ip_is_link_local_unicast": _attribute("is_link_local_unicast"),
    "ip_is_global_unicast": _attribute("is_global_unicast"),
    "is_ip": is_ip,
    "string_to_cidr": cidr,
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_ip_ip": Cidr.contains_ip,
    "cidr_contains_cidr_string": lambda network, text: network.contains_cidr(cidr(text)),
    "cidr_contains_cidr": Cidr.contains_cidr,
    "cidr_prefix_length": _attribute("prefix"),
    "cidr_masked": Cidr.masked,
    "is_cidr": is_cidr,
    "string_to_url": url,
    "url_get_scheme": _attribute("scheme"),
    "url_get_host": _attribute("host"),
    "url_get_hostname": _attribute("hostname"),
    "url_get_port": _attribute("port"),
    "url_get_escaped_path": _attribute("path"),
    "url_get_query": Url.query_values,
    "is_url_string": is_url,
    "format-validate": _validate,
    "format-named": _named_format,
    **{f"format.{name}": _constant(value) for name, value in FORMATS.items()},
}
