"""Build CEL expressions of v1 for conditions on a device."""

import functools
import re
from collections.abc import Sequence

from dra_shared.cel import CompileError, compile_expression
from dra_shared.classic.drivers import Driver, Type
from dra_shared.numerals import integer, is_digits
from dra_shared.quantity import Quantity, QuantityError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_SEPARATOR = re.compile(r"[-_.]+([A-Za-z0-9])")
_DIGITS = re.compile(r"-?\d+")
_UNITS = ("Ti", "Gi", "Mi", "Ki")

# The largest and smallest share of a GPU's memory that a slice of 1 to 7 parts has: 1g.20gb of an H100 is a
# quarter, 1g.10gb an eighth. An A30 has four parts.
_MOST = {1: 4, 2: 2, 3: 2, 4: 1, 7: 1}
_LEAST = {1: 8, 2: 4, 3: 2, 4: 2, 7: 1}


class Inexpressible(Exception):
    """v1 cannot express the condition. The message says why."""


def text(value: str) -> str:
    """Return a string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def of_driver(driver: str) -> str:
    """Return an expression that selects devices of the driver."""
    return f"device.driver == {text(driver)}"


def of_type(driver: Driver, type_: str) -> str:
    """Return an expression that selects devices of this type, for a driver with several types."""
    return f"{_attribute(driver.name, 'type')} == {text(type_)}"


def of_profile(driver: Driver, profile: str) -> str:
    """Return an expression that selects MIG devices of this profile."""
    return f"{of_type(driver, 'mig')} && {_attribute(driver.name, 'profile')} == {text(profile)}"


def of_class(driver: Driver, type_: str = "") -> str:
    """Return the selector that the driver's DeviceClass has for a type of device."""
    parts = [of_driver(driver.name)]
    if type_ and driver.partitioned:
        parts.append(of_type(driver, type_))
    return " && ".join(parts)


def _attribute(domain: str, name: str) -> str:
    return f"device.attributes[{text(domain)}].{name}"


def _capacity(domain: str, name: str) -> str:
    return f"device.capacity[{text(domain)}].{name}"


def spell_key(key: str) -> str:
    """Return an attribute's name in the spelling of v1: ``product-name`` becomes productName."""
    return _SEPARATOR.sub(lambda found: found[1].upper(), key)


@functools.lru_cache
def problem(expression: str) -> str:
    """Return the error of the API server for the expression, empty if it is valid."""
    try:
        compile_expression(expression, features=frozenset())
    except CompileError as error:
        return error.text.split("\n")[0]
    return ""


class Key:
    """The subject of a condition: an attribute or a capacity of the driver's devices.

    Raises:
        Inexpressible: v1 has no such attribute.
    """

    def __init__(self, driver: Driver, key: str) -> None:
        domain, slash, name = key.rpartition("/")
        self.driver = driver
        self.domain = domain if slash else driver.name
        self.name = _driver_spelling(driver, spell_key(name))
        if self.name in driver.gone:
            raise Inexpressible(driver.gone[self.name])
        if not _IDENTIFIER.fullmatch(self.name):
            raise Inexpressible(f"{key!r} cannot be the name of an attribute in v1")
        self._type = driver.types.get(self.name) if self.domain == driver.name else None

    def type_for(self, values: Sequence[str]) -> Type:
        """Return the attribute's type, derived from the values if the driver is unknown."""
        if self._type is not None:
            return self._type
        if self.driver.types and self.domain == self.driver.name:
            raise Inexpressible(f"{self.driver.name} publishes no attribute {self.name!r}")
        if values and all(_DIGITS.fullmatch(value) for value in values):
            return Type.INT
        if values and all(value in ("true", "false") for value in values):
            return Type.BOOL
        if values and all(value[:1].isdigit() and is_quantity(value) for value in values):
            return Type.QUANTITY
        return Type.STRING

    @property
    def attribute(self) -> str:
        """The expression of the attribute's value."""
        return _attribute(self.domain, self.name)

    @property
    def capacity(self) -> str:
        """The expression of the capacity's value."""
        return _capacity(self.domain, self.name)

    def exists(self, type_: Type) -> str:
        """Return an expression that is true if the device has the attribute or capacity."""
        return f"has({self.capacity if type_ is Type.QUANTITY else self.attribute})"


def _driver_spelling(driver: Driver, name: str) -> str:
    """Return the driver's spelling of a name."""
    return next((own for own in driver.types if own.lower() == name.lower()), name)


def is_quantity(value: str) -> bool:
    """True if the text is a quantity such as 16Gi."""
    try:
        Quantity.parse(value)
    except QuantityError:
        return False
    return True


def compare(key: Key, sign: str, value: str) -> str:
    """Return the condition ``key sign value``, with one of CEL's comparison operators as sign.

    Raises:
        Inexpressible: v1 cannot compare such values.
    """
    type_ = key.type_for([value])
    if type_ is Type.QUANTITY:
        if not is_quantity(value):
            raise Inexpressible(f"{value!r} is not a quantity")
        return f"{key.exists(type_)} && {_amount(key, sign, value)}"
    guard = key.exists(type_)
    if type_ is Type.VERSION:
        return f"{guard} && {key.attribute}.compareTo(semver({text(version(value))})) {sign} 0"
    if type_ is Type.INT:
        if not _DIGITS.fullmatch(value):
            raise Inexpressible(f"{value!r} is not a whole number")
        return f"{guard} && {key.attribute} {sign} {int(value)}"
    if sign != "==":
        raise Inexpressible(f"{key.name} is {type_.value} and can't be compared with {sign}")
    return one_of(key, [value])


def one_of(key: Key, values: Sequence[str]) -> str:
    """Return the condition that the attribute is one of the values.

    Text is compared without case, and ``*`` matches any text.
    """
    type_ = key.type_for(values)
    if type_ is Type.BOOL:
        words = [value.lower() for value in values]
        if not set(words) <= {"true", "false"}:
            raise Inexpressible(f"{key.name} is true or false")
        return f"{key.exists(type_)} && {key.attribute} in [{', '.join(words)}]"
    if type_ is not Type.STRING:
        return " || ".join(f"({compare(key, '==', value)})" for value in values)
    lower = [value.lower() for value in values]
    plain = [value for value in lower if "*" not in value]
    options = [f"{key.attribute}.lowerAscii().matches({text(_glob(one))})" for one in lower if "*" in one]
    if len(plain) == 1:
        options.append(f"{key.attribute}.lowerAscii() == {text(plain[0])}")
    elif plain:
        options.append(f"{key.attribute}.lowerAscii() in [{', '.join(map(text, plain))}]")
    joined = options[0] if len(options) == 1 else "(" + " || ".join(options) + ")"
    return f"{key.exists(type_)} && {joined}"


def _glob(pattern: str) -> str:
    return "^" + ".*".join(re.sub(r"([^A-Za-z0-9_ ])", r"\\\1", part) for part in pattern.split("*")) + "$"


def version(value: str) -> str:
    """Return a semantic version, from a text that may lack parts or have leading zeros.

    Raises:
        Inexpressible: the text is not a version.
    """
    numbers = value.removeprefix("v").split(".")
    if not all(is_digits(number) for number in numbers) or len(numbers) > 3:
        raise Inexpressible(f"{value!r} is not a version")
    return ".".join(str(integer(number)) for number in [*numbers, "0", "0"][:3])


def _amount(key: Key, sign: str, value: str) -> str:
    """Return a condition on a capacity.

    For a MIG device, old conditions are about the memory of the whole GPU. v1 publishes the memory of the MIG device
    itself.
    """
    plain = f"{key.capacity}.compareTo(quantity({text(value)})) {sign} 0"
    if not key.driver.partitioned or key.name != "memory":
        return plain
    if sign == "==":
        return plain
    parts = _MOST if sign in (">", ">=") else _LEAST
    amounts = ", ".join(f"'{n}g': quantity({text(_share(value, share))})" for n, share in parts.items())
    profile = _attribute(key.driver.name, "profile")
    slice_ = f"{{{amounts}}}[{profile}.substring(0, 2)]"
    return f"({of_type(key.driver, 'mig')} ? {key.capacity}.compareTo({slice_}) {sign} 0 : {plain})"


def _share(value: str, parts: int) -> str:
    """Return a part of a quantity, in the largest unit that gives a whole number."""
    total = Quantity.parse(value).value() // parts
    for power, unit in zip((40, 30, 20, 10), _UNITS, strict=True):
        if total and total % (1 << power) == 0:
            return f"{total >> power}{unit}"
    return str(total)
