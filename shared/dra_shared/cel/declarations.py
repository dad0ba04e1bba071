"""The functions of the DRA environment: names, overloads and types, as data.

The environment is Kubernetes' base environment with all its libraries, the bindings extension and ``includes``
(k8s.io/apiserver/pkg/cel/environment, k8s.io/dynamic-resource-allocation/cel). The authorizer's functions only decide
how errors read: nothing in DRA can produce an authorizer.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dra_shared.cel import types as t
from dra_shared.cel.types import Kind, Type

_STANDARD: Final = """
_?_:_
  conditional(bool, A, A) A
_&&_
  logical_and(bool, bool) bool
_||_
  logical_or(bool, bool) bool
!_
  logical_not(bool) bool
@not_strictly_false
  not_strictly_false(bool) bool
_==_
  equals(A, A) bool
_!=_
  not_equals(A, A) bool
_+_
  add_bytes(bytes, bytes) bytes
  add_double(double, double) double
  add_duration_duration(duration, duration) duration
  add_duration_timestamp(duration, timestamp) timestamp
  add_timestamp_duration(timestamp, duration) timestamp
  add_int64(int, int) int
  add_list(list<A>, list<A>) list<A>
  add_string(string, string) string
  add_uint64(uint, uint) uint
_/_
  divide_double(double, double) double
  divide_int64(int, int) int
  divide_uint64(uint, uint) uint
_%_
  modulo_int64(int, int) int
  modulo_uint64(uint, uint) uint
_*_
  multiply_double(double, double) double
  multiply_int64(int, int) int
  multiply_uint64(uint, uint) uint
-_
  negate_double(double) double
  negate_int64(int) int
_-_
  subtract_double(double, double) double
  subtract_duration_duration(duration, duration) duration
  subtract_int64(int, int) int
  subtract_timestamp_duration(timestamp, duration) timestamp
  subtract_timestamp_timestamp(timestamp, timestamp) duration
  subtract_uint64(uint, uint) uint
_[_]
  index_list(list<A>, int) A
  index_map(map<A, B>, A) B
  optional_list_index_int(optional<list<V>>, int) optional<V>
  optional_map_index_value(optional<map<K, V>>, K) optional<V>
_[?_]
  list_optindex_optional_int(list<V>, int) optional<V>
  optional_list_optindex_optional_int(optional<list<V>>, int) optional<V>
  map_optindex_optional_value(map<K, V>, K) optional<V>
  optional_map_optindex_optional_value(optional<map<K, V>>, K) optional<V>
@in
  in_list(A, list<A>) bool
  in_map(A, map<A, B>) bool
size
  size_bytes(bytes) int
  .bytes_size(bytes) int
  size_list(list<A>) int
  .list_size(list<A>) int
  size_map(map<A, B>) int
  .map_size(map<A, B>) int
  size_string(string) int
  .string_size(string) int
type
  type(A) type<A>
bool
  bool_to_bool(bool) bool
  string_to_bool(string) bool
bytes
  bytes_to_bytes(bytes) bytes
  string_to_bytes(string) bytes
double
  double_to_double(double) double
  int64_to_double(int) double
  string_to_double(string) double
  uint64_to_double(uint) double
duration
  duration_to_duration(duration) duration
  int64_to_duration(int) duration
  string_to_duration(string) duration
dyn
  to_dyn(A) dyn
int
  int64_to_int64(int) int
  double_to_int64(double) int
  duration_to_int64(duration) int
  string_to_int64(string) int
  timestamp_to_int64(timestamp) int
  uint64_to_int64(uint) int
string
  string_to_string(string) string
  bool_to_string(bool) string
  bytes_to_string(bytes) string
  double_to_string(double) string
  duration_to_string(duration) string
  int64_to_string(int) string
  timestamp_to_string(timestamp) string
  uint64_to_string(uint) string
  ip_to_string(IP) string
  cidr_to_string(CIDR) string
timestamp
  timestamp_to_timestamp(timestamp) timestamp
  int64_to_timestamp(int) timestamp
  string_to_timestamp(string) timestamp
uint
  uint64_to_uint64(uint) uint
  double_to_uint64(double) uint
  int64_to_uint64(int) uint
  string_to_uint64(string) uint
contains
  .contains_string(string, string) bool
endsWith
  .ends_with_string(string, string) bool
startsWith
  .starts_with_string(string, string) bool
matches
  matches(string, string) bool
  .matches_string(string, string) bool
getFullYear
  .timestamp_to_year(timestamp) int
  .timestamp_to_year_with_tz(timestamp, string) int
getMonth
  .timestamp_to_month(timestamp) int
  .timestamp_to_month_with_tz(timestamp, string) int
getDayOfYear
  .timestamp_to_day_of_year(timestamp) int
  .timestamp_to_day_of_year_with_tz(timestamp, string) int
getDayOfMonth
  .timestamp_to_day_of_month(timestamp) int
  .timestamp_to_day_of_month_with_tz(timestamp, string) int
getDate
  .timestamp_to_day_of_month_1_based(timestamp) int
  .timestamp_to_day_of_month_1_based_with_tz(timestamp, string) int
getDayOfWeek
  .timestamp_to_day_of_week(timestamp) int
  .timestamp_to_day_of_week_with_tz(timestamp, string) int
getHours
  .timestamp_to_hours(timestamp) int
  .timestamp_to_hours_with_tz(timestamp, string) int
  .duration_to_hours(duration) int
getMinutes
  .timestamp_to_minutes(timestamp) int
  .timestamp_to_minutes_with_tz(timestamp, string) int
  .duration_to_minutes(duration) int
getSeconds
  .timestamp_to_seconds(timestamp) int
  .timestamp_to_seconds_tz(timestamp, string) int
  .duration_to_seconds(duration) int
getMilliseconds
  .timestamp_to_milliseconds(timestamp) int
  .timestamp_to_milliseconds_with_tz(timestamp, string) int
  .duration_to_milliseconds(duration) int
"""

_LIBRARIES: Final = """
optional.of
  optional_of(V) optional<V>
optional.ofNonZeroValue
  optional_ofNonZeroValue(V) optional<V>
optional.none
  optional_none() optional<V>
value
  .optional_value(optional<V>) V
hasValue
  .optional_hasValue(optional<V>) bool
or
  .optional_or_optional(optional<V>, optional<V>) optional<V>
orValue
  .optional_orValue_value(optional<V>, V) V
last
  .list_last(list<V>) optional<V>
first
  .list_first(list<V>) optional<V>
optional.unwrap
  optional_unwrap(list<optional<V>>) list<V>
unwrapOpt
  .optional_unwrapOpt(list<optional<V>>) list<V>
url
  string_to_url(string) URL
getScheme
  .url_get_scheme(URL) string
getHost
  .url_get_host(URL) string
getHostname
  .url_get_hostname(URL) string
getPort
  .url_get_port(URL) string
getEscapedPath
  .url_get_escaped_path(URL) string
getQuery
  .url_get_query(URL) map<string, list<string>>
isURL
  is_url_string(string) bool
find
  .string_find_string(string, string) string
findAll
  .string_find_all_string(string, string) list<string>
  .string_find_all_string_int(string, string, int) list<string>
quantity
  string_to_quantity(string) Quantity
isQuantity
  is_quantity_string(string) bool
sign
  quantity_sign(Quantity) int
isGreaterThan
  .quantity_is_greater_than(Quantity, Quantity) bool
  .semver_is_greater_than(Semver, Semver) bool
isLessThan
  .quantity_is_less_than(Quantity, Quantity) bool
  .semver_is_less_than(Semver, Semver) bool
compareTo
  .quantity_compare_to(Quantity, Quantity) int
  .semver_compare_to(Semver, Semver) int
asApproximateFloat
  .quantity_get_float(Quantity) double
asInteger
  .quantity_get_int(Quantity) int
isInteger
  .quantity_is_integer(Quantity) bool
add
  .quantity_add(Quantity, Quantity) Quantity
  .quantity_add_int(Quantity, int) Quantity
sub
  .quantity_sub(Quantity, Quantity) Quantity
  .quantity_sub_int(Quantity, int) Quantity
charAt
  .string_char_at_int(string, int) string
indexOf
  .list_a_index_of_int(list<A>, A) int
  .string_index_of_string(string, string) int
  .string_index_of_string_int(string, string, int) int
lastIndexOf
  .list_a_last_index_of_int(list<A>, A) int
  .string_last_index_of_string(string, string) int
  .string_last_index_of_string_int(string, string, int) int
lowerAscii
  .string_lower_ascii(string) string
replace
  .string_replace_string_string(string, string, string) string
  .string_replace_string_string_int(string, string, string, int) string
split
  .string_split_string(string, string) list<string>
  .string_split_string_int(string, string, int) list<string>
substring
  .string_substring_int(string, int) string
  .string_substring_int_int(string, int, int) string
trim
  .string_trim(string) string
upperAscii
  .string_upper_ascii(string) string
format
  .string_format(string, list<dyn>) string
strings.quote
  strings_quote(string) string
join
  .list_join(list<string>) string
  .list_join_string(list<string>, string) string
sets.contains
  list_sets_contains_list(list<T>, list<T>) bool
sets.equivalent
  list_sets_equivalent_list(list<T>, list<T>) bool
sets.intersects
  list_sets_intersects_list(list<T>, list<T>) bool
ip
  string_to_ip(string) IP
  .cidr_ip(CIDR) IP
family
  .ip_family(IP) int
ip.isCanonical
  ip_is_canonical(string) bool
isUnspecified
  .ip_is_unspecified(IP) bool
isLoopback
  .ip_is_loopback(IP) bool
isLinkLocalMulticast
  .ip_is_link_local_multicast(IP) bool
isLinkLocalUnicast
  .ip_is_link_local_unicast(IP) bool
isGlobalUnicast
  .ip_is_global_unicast(IP) bool
isIP
  is_ip(string) bool
cidr
  string_to_cidr(string) CIDR
containsIP
  .cidr_contains_ip_string(CIDR, string) bool
  .cidr_contains_ip_ip(CIDR, IP) bool
containsCIDR
  .cidr_contains_cidr_string(CIDR, string) bool
  .cidr_contains_cidr(CIDR, CIDR) bool
prefixLength
  .cidr_prefix_length(CIDR) int
masked
  .cidr_masked(CIDR) CIDR
isCIDR
  is_cidr(string) bool
validate
  .format-validate(Format, string) optional<list<string>>
format.named
  format-named(string) optional<Format>
cel.@mapInsert
  @mapInsert_map_key_value(map<K, V>, K, V) map<K, V>
  @mapInsert_map_map(map<K, V>, map<K, V>) map<K, V>
semver
  string_to_semver(string) Semver
  string_bool_to_semver(string, bool) Semver
isSemver
  is_semver_string(string) bool
  is_semver_string_bool(string, bool) bool
major
  .semver_major(Semver) int
minor
  .semver_minor(Semver) int
patch
  .semver_patch(Semver) int
slice
  .list_slice(list<T>, int, int) list<T>
flatten
  .list_flatten(list<list<T>>) list<T>
  .list_flatten_int(list<dyn>, int) list<dyn>
lists.range
  lists_range(int) list<int>
reverse
  .list_reverse(list<T>) list<T>
distinct
  .list_distinct(list<T>) list<T>
_?._
  select_optional_field(dyn, string) optional<V>
allowed
  .decision_allowed(Decision) bool
check
  .pathcheck_check(PathCheck, string) Decision
  .resourcecheck_check(ResourceCheck, string) Decision
errored
  .decision_errored(Decision) bool
error
  .decision_error(Decision) string
fieldSelector
  .authorizer_fieldselector(ResourceCheck, string) ResourceCheck
group
  .authorizer_group(Authorizer, string) GroupCheck
labelSelector
  .authorizer_labelselector(ResourceCheck, string) ResourceCheck
namespace
  .resourcecheck_namespace(ResourceCheck, string) ResourceCheck
name
  .resourcecheck_name(ResourceCheck, string) ResourceCheck
path
  .authorizer_path(Authorizer, string) PathCheck
reason
  .decision_reason(Decision) string
resource
  .groupcheck_resource(GroupCheck, string) ResourceCheck
serviceAccount
  .authorizer_serviceaccount(Authorizer, string, string) Authorizer
subresource
  .resourcecheck_subresource(ResourceCheck, string) ResourceCheck
"""

INCLUDES: Final = "includes"
FORMATS: Final = (
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
)
COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
SUMMABLE: Final = ("int", "uint", "double", "duration")
_RELATIONS: Final = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_RELATED: Final = (
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. ``params`` names its type parameters."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[str, ...]


Functions = dict[str, tuple[Overload, ...]]

NAMED: Final = {
    "bool": t.BOOL, "bytes": t.BYTES, "double": t.DOUBLE, "duration": t.DURATION, "dyn": t.DYN, "int": t.INT,
    "string": t.STRING, "timestamp": t.TIMESTAMP, "uint": t.UINT, "Quantity": t.QUANTITY, "Semver": t.SEMVER,
    "URL": t.URL, "Format": t.FORMAT, "IP": t.IP, "CIDR": t.CIDR,
    **t.AUTHORIZATION,
}  # fmt: skip
_GENERIC: Final[dict[str, Callable[..., Type]]] = {
    "list": t.list_of,
    "map": t.map_of,
    "optional": t.optional_of,
    "type": t.type_of,
}


def _parse_types(text: str) -> list[Type]:
    """A comma-separated list of types."""
    found: list[Type] = []
    at = 0
    while at < len(text):
        match = re.compile(r"\s*(\w+)").match(text, at)
        if match is None:
            raise ValueError(f"bad types {text!r}")
        name, at = match[1], match.end()
        if text[at : at + 1] == "<":
            depth, end = 1, at + 1
            while depth:
                depth += {"<": 1, ">": -1}.get(text[end], 0)
                end += 1
            found.append(_GENERIC[name](*_parse_types(text[at + 1 : end - 1])))
            at = end
        else:
            found.append(NAMED.get(name) or t.param(name))
        at += 1
    return found


def _parameters(types: tuple[Type, ...]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    pending = list(types)
    while pending:
        current = pending.pop(0)
        if current.kind is Kind.PARAM:
            names[current.name] = None
        pending.extend(current.params)
    return tuple(names)


def _overload(line: str) -> Overload:
    match = re.fullmatch(r"(\.?)([^(]+)\((.*)\) (.+)", line)
    if match is None:
        raise ValueError(f"bad overload {line!r}")
    args = tuple(_parse_types(match[3]))
    (result,) = _parse_types(match[4])
    return Overload(match[2], match[1] == ".", args, result, _parameters((result, *args)))


def _generated() -> list[str]:
    """The overloads that come in one variant a type."""
    lines: list[str] = []
    for function, prefix in _RELATIONS.items():
        lines.append(function)
        lines += [f"  {prefix}_{suffix}({left}, {right}) bool" for suffix, left, right in _RELATED]
    lines.append("isSorted")
    lines += [f"  .list_{name}_is_sorted_bool(list<{name}>) bool" for name in COMPARABLE]
    lines.append("sum")
    lines += [f"  .list_{name}_sum_{name}(list<{name}>) {name}" for name in SUMMABLE]
    for function in ("max", "min"):
        lines.append(function)
        lines += [f"  .list_{name}_{function}_{name}(list<{name}>) {name}" for name in COMPARABLE]
    lines.append("sort")
    lines += [f"  .list_{NAMED[name].name}_sort(list<{name}>) list<{name}>" for name in COMPARABLE]
    lines.append("@sortByAssociatedKeys")
    lines += [
        f"  .list_{NAMED[name].name}_sortByAssociatedKeys(list<T>, list<{name}>) list<T>"
        for name in COMPARABLE
    ]
    for name in FORMATS:
        lines += [f"format.{name}", f"  format.{name}() Format"]
    return lines


@functools.cache
def functions(*, includes: bool, patches: bool = False) -> Functions:
    """Every function of the environment; ``includes`` adds DRA's member, ``patches`` what mutating policies have."""
    declared: dict[str, list[Overload]] = {}
    current: list[Overload] = []
    lines = [*_STANDARD.splitlines(), *_generated(), *_LIBRARIES.splitlines()]
    if includes:
        lines += [INCLUDES, "  .dra_includes_dyn_dyn(dyn, dyn) bool"]
    if patches:
        lines += ["jsonpatch.escapeKey", "  string_jsonpatch_escapeKey_string(string) string"]
    for line in lines:
        if line.startswith("  "):
            current.append(_overload(line.strip()))
        elif line:
            current = declared.setdefault(line, [])
    return {name: tuple(overloads) for name, overloads in declared.items()}


#: The types that can be named in an expression.
TYPE_IDENTS: Final[dict[str, Type]] = {
    "bool": t.BOOL,
    "bytes": t.BYTES,
    "double": t.DOUBLE,
    "google.protobuf.Duration": t.DURATION,
    "int": t.INT,
    "list": t.list_of(t.param("A")),
    "map": t.map_of(t.param("A"), t.param("B")),
    "null_type": t.NULL,
    "string": t.STRING,
    "google.protobuf.Timestamp": t.TIMESTAMP,
    "type": t.TYPE,
    "uint": t.UINT,
    "optional_type": Type(Kind.OPAQUE, "optional_type"),
    "net.IP": t.IP,
    "net.CIDR": t.CIDR,
}
