"""Random CEL selectors, each with the device that it is evaluated for.

A case has the form of the recorded cases of ``dralab conformance cel``. Expressions are drawn by type from a small
grammar, so that most of them compile, and functions are combined in ways that no hand-written test does.
"""

from collections.abc import Callable

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, Version

from tools.compare.draw import Draw

_DRIVERS = ("gpu.example.com", "nic.example.com")
_DEEPEST = 3


def draw_expression(seed: str, kubernetes: Version) -> JsonObject:
    """Return the expression and device that are drawn from a seed."""
    return _Expression(Draw(f"{kubernetes} {seed}"), kubernetes).draw(seed)


class _Expression:
    def __init__(self, draw: Draw, kubernetes: Version) -> None:
        self._draw = draw
        self._kubernetes = kubernetes
        # Variables of macros that are in scope, by type.
        self._variables: dict[str, list[str]] = {}

    def draw(self, name: str) -> JsonObject:
        draw = self._draw
        features = ["DRAConsumableCapacity"] if draw.chance(0.7) else []
        if self._kubernetes >= V1_36 and draw.chance(0.7):
            features.append("DRAListTypeAttributes")
        return {
            "name": name,
            "features": features,
            "envType": draw.pick(("StoredExpressions", "NewExpressions")),
            "expression": self._of("bool", _DEEPEST if draw.chance(0.9) else 1),
            "driver": draw.pick(_DRIVERS),
            "device": self._device(),
        }

    def _device(self) -> JsonObject:
        draw = self._draw
        attributes: JsonObject = {}
        lists = "ints" if self._kubernetes >= V1_36 and draw.chance(0.4) else "int"
        if draw.chance(0.8):
            attributes["model"] = {"string": draw.pick(("A", "B", "H100 80GB", "é"))}
        if draw.chance(0.8):
            attributes["index"] = {"int": draw.number(-1, 4)}
        if draw.chance(0.6):
            attributes["fw"] = {"version": draw.pick(("1.0.0", "2.1.0", "3.0.0-rc.1"))}
        if draw.chance(0.6):
            attributes["gpu.example.com/ok"] = {"bool": draw.chance(0.5)}
        if draw.chance(0.6):
            attributes["shared.example.com/numa"] = {
                lists: draw.sample((0, 1, 2), 3) if lists == "ints" else 1
            }
        capacity = {
            name: {"value": draw.pick(("1", "4Gi", "1500m", "80Gi"))}
            for name in ("mem", "bw")
            if draw.chance(0.7)
        }
        device: JsonObject = {"attributes": attributes, "capacity": capacity}
        if draw.chance(0.5):
            device["allowMultipleAllocations"] = draw.chance(0.5)
        return device

    def _of(self, kind: str, depth: int) -> str:
        """Return an expression of the type ``kind``. One in forty has another type, so that type errors occur."""
        draw = self._draw
        if draw.chance(0.025):
            kind = draw.pick(("bool", "int", "string", "quantity", "semver", "ints", "strings"))
        scope = self._variables.get(kind)
        if scope and draw.chance(0.4):
            return draw.pick(scope)
        if depth <= 0 or draw.chance(0.2):
            return draw.pick(_LEAVES[kind])
        return draw.pick(_FORMS[kind])(self, depth - 1)

    def _macro(self, form: str, depth: int) -> str:
        """Return a macro such as ``all`` over a list. The body may use the macro's variable."""
        name = f"v{depth}"
        source = self._of("ints", depth)
        scope = self._variables.setdefault("int", [])
        scope.append(name)
        body = self._of("int" if form == "map" else "bool", depth)
        scope.remove(name)
        return f"{source}.{form}({name}, {body})"


_LEAVES: dict[str, tuple[str, ...]] = {
    "bool": (
        "true",
        'device.driver == "gpu.example.com"',
        'device.attributes["gpu.example.com"].ok',
        "device.allowMultipleAllocations",
        'has(device.attributes["gpu.example.com"].model)',
        '"mem" in device.capacity["gpu.example.com"]',
        'device.attributes["shared.example.com"].?numa.hasValue()',
        'device.attributes.exists(d, d == "gpu.example.com")',
        'isQuantity("1Gi")',
        'isSemver("v1.0", true)',
        'isURL("https://a.example.com")',
        'isIP("10.0.0.1")',
        'cidr("10.0.0.0/8").containsIP("10.1.1.1")',
    ),
    "int": (
        "0",
        "1",
        "-3",
        "9223372036854775807",
        'device.attributes["gpu.example.com"].index',
        "device.attributes[device.driver].?index.orValue(2)",
        'device.attributes["shared.example.com"].numa',
        'size(device.attributes["gpu.example.com"])',
    ),
    "string": (
        '"A"',
        '""',
        '"é√"',
        "r'\\d+'",
        "device.driver",
        'device.attributes["gpu.example.com"].model',
        'device.attributes["gpu.example.com"].?model.orValue("none")',
        'device.attributes["gpu.example.com"].nosuch',
    ),
    "quantity": (
        'quantity("1")',
        'quantity("1.5Gi")',
        'quantity("-300m")',
        'device.capacity["gpu.example.com"].mem',
        "device.capacity[device.driver].bw",
    ),
    "semver": (
        'semver("1.2.3")',
        'semver("v1.0", true)',
        'device.attributes["gpu.example.com"].fw',
    ),
    "ints": (
        "[]",
        "[1]",
        "[3, 1, 2, 1]",
        'device.attributes["shared.example.com"].numa',
        "[device.attributes[device.driver].index]",
    ),
    "duration": ('duration("1h")', 'duration("90s")', 'duration("-1.5h")'),
    "double": ("1.5", "0.0", "-2.0", "1e308"),
    "strings": ('["A", "B"]', '["b", "a", "b"]', '"a,b,c".split(",")', "[device.driver]"),
}


def _form(text: str, *kinds: str) -> Callable[[_Expression, int], str]:
    """Return a form whose ``{}`` take expressions of these types."""

    def draw(expression: _Expression, depth: int) -> str:
        return text.format(*(expression._of(kind, depth) for kind in kinds))

    return draw


def _macro(form: str) -> Callable[[_Expression, int], str]:
    return lambda expression, depth: expression._macro(form, depth)


_FORMS: dict[str, tuple[Callable[[_Expression, int], str], ...]] = {
    "bool": (
        _form("({} && {})", "bool", "bool"),
        _form("({} || {})", "bool", "bool"),
        _form("!({})", "bool"),
        _form("({} ? {} : {})", "bool", "bool", "bool"),
        _form("({} == {})", "int", "int"),
        _form("({} < {})", "int", "int"),
        _form("({} >= {})", "int", "int"),
        _form("({} == {})", "string", "string"),
        _form("({} != {})", "string", "string"),
        _form("({} < {})", "string", "string"),
        _form("({} in {})", "int", "ints"),
        _form("({} in {})", "string", "strings"),
        _form("({} == {})", "ints", "ints"),
        _form("{}.startsWith({})", "string", "string"),
        _form("{}.endsWith({})", "string", "string"),
        _form("{}.contains({})", "string", "string"),
        _form('{}.matches("^[A-H].*")', "string"),
        _form("{}.matches({})", "string", "string"),
        _form("{}.isGreaterThan({})", "quantity", "quantity"),
        _form("{}.isLessThan({})", "quantity", "quantity"),
        _form("({}.compareTo({}) >= 0)", "quantity", "quantity"),
        _form("{}.isInteger()", "quantity"),
        _form("{}.isGreaterThan({})", "semver", "semver"),
        _form("({}.compareTo({}) == 0)", "semver", "semver"),
        _form("{}.isSorted()", "ints"),
        _form("{}.includes({})", "ints", "int"),
        _form("{}.includes({})", "strings", "string"),
        _form("{}.includes({})", "string", "string"),
        _form("(dyn({}) == {})", "int", "string"),
        _form("matches({}, {})", "string", "string"),
        _form("sets.contains({}, {})", "ints", "ints"),
        _form("sets.intersects({}, {})", "strings", "strings"),
        _form("sets.equivalent({}, {})", "ints", "ints"),
        _form("({} == {})", "strings", "strings"),
        _form("({} < {})", "duration", "duration"),
        _form("({} == {})", "double", "double"),
        _form("({} < {})", "int", "double"),
        _form('({{"a": {}, "b": {}}}.b == {})', "int", "int", "int"),
        _form('({} in {{"a": 1}})', "string"),
        _form("[{}].exists(i, v, i < {} && v == {})", "int", "int", "int"),
        _form("{}.first().hasValue()", "ints"),
        _form("{}.isSorted()", "strings"),
        _form("!format.dns1123Label().validate({}).hasValue()", "string"),
        _form("(bytes({}) == b'A')", "string"),
        _form("(type({}) == type({}))", "int", "string"),
        _form("optional.of({}).hasValue()", "string"),
        _form("cel.bind(x, {}, {} == {})", "int", "int", "int"),
        _macro("all"),
        _macro("exists"),
        _macro("exists_one"),
    ),
    "int": (
        _form("({} + {})", "int", "int"),
        _form("({} - {})", "int", "int"),
        _form("({} * {})", "int", "int"),
        _form("({} / {})", "int", "int"),
        _form("({} % {})", "int", "int"),
        _form("(-{})", "int"),
        _form("size({})", "string"),
        _form("{}.size()", "ints"),
        _form("{}.indexOf({})", "string", "string"),
        _form("{}.indexOf({})", "ints", "int"),
        _form("{}.lastIndexOf({})", "ints", "int"),
        _form("{}.min()", "ints"),
        _form("{}.max()", "ints"),
        _form("{}.sum()", "ints"),
        _form("{}[{}]", "ints", "int"),
        _form("{}.major()", "semver"),
        _form("{}.patch()", "semver"),
        _form("{}.sign()", "quantity"),
        _form("{}.asInteger()", "quantity"),
        _form("int({})", "string"),
        _form("math.greatest({}, {})", "int", "int"),
        _form("{}.last().orValue({})", "ints", "int"),
        _form("int({})", "double"),
        _form("uint({})", "int"),
        _form("{}.getSeconds()", "duration"),
        _form("size(bytes({}))", "string"),
        _form("{}.size()", "strings"),
        _form('{{"a": {}}}["a"]', "int"),
        _form("url({}).getPort().size()", "string"),
        _form("optional.none().or(optional.of({})).value()", "int"),
        _form("({} ? {} : {})", "bool", "int", "int"),
    ),
    "string": (
        _form("({} + {})", "string", "string"),
        _form("{}.lowerAscii()", "string"),
        _form("{}.upperAscii()", "string"),
        _form("{}.trim()", "string"),
        _form("{}.replace({}, {})", "string", "string", "string"),
        _form("{}.substring({})", "string", "int"),
        _form("{}.charAt({})", "string", "int"),
        _form("{}.find({})", "string", "string"),
        _form("string({})", "int"),
        _form('{}.join("-")', "strings"),
        _form('"%d|%s".format([{}, {}])', "int", "string"),
        _form("{}[{}]", "strings", "int"),
        _form("({} ? {} : {})", "bool", "string", "string"),
    ),
    "quantity": (
        _form("quantity({})", "string"),
        _form("{}.add({})", "quantity", "quantity"),
        _form("{}.sub({})", "quantity", "quantity"),
        _form("{}.add({})", "quantity", "int"),
        _form("({} ? {} : {})", "bool", "quantity", "quantity"),
    ),
    "duration": (
        _form("duration({})", "string"),
        _form("duration({})", "int"),
        _form("({} + {})", "duration", "duration"),
        _form('(timestamp("2024-01-01T00:00:00Z") - timestamp("2023-12-31T00:00:00Z") + {})', "duration"),
    ),
    "double": (
        _form("double({})", "int"),
        _form("({} * {})", "double", "double"),
        _form("({} / {})", "double", "double"),
        _form("{}.asApproximateFloat()", "quantity"),
    ),
    "semver": (_form("semver({})", "string"), _form("({} ? {} : {})", "bool", "semver", "semver")),
    "ints": (
        _form("({} + {})", "ints", "ints"),
        _form("[{}, {}]", "int", "int"),
        _form("({} ? {} : {})", "bool", "ints", "ints"),
        _form("{}.distinct()", "ints"),
        _form("{}.sort()", "ints"),
        _form("{}.slice({}, {})", "ints", "int", "int"),
        _form("{}.reverse()", "ints"),
        _form("[{}, {}].flatten()", "ints", "ints"),
        _form("lists.range({} % 5)", "int"),
        _form("{}.sortBy(e, e % 2)", "ints"),
        _form("{}.transformList(i, v, v + {})", "ints", "int"),
        _form("[?optional.of({}), {}]", "int", "int"),
        _macro("filter"),
        _macro("map"),
    ),
    "strings": (
        _form("({} + {})", "strings", "strings"),
        _form("[{}, {}]", "string", "string"),
        _form("{}.split({})", "string", "string"),
        _form("{}.distinct()", "strings"),
        _form("{}.findAll({})", "string", "string"),
        _form("{}.sort()", "strings"),
        _form("{}.sortBy(e, size(e))", "strings"),
        _form("{}.reverse()", "strings"),
    ),
}
