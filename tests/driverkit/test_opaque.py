from typing import Any, Optional

import msgspec
import pytest
from dra_driverkit.errors import PrepareError
from dra_driverkit.opaque import Config, Configs, applies_to, configs_for, decode_strict
from dra_shared.api.resource import DeviceAllocationConfiguration

from tests.driverkit.claims import claim, opaque
from tests.support.cases import each_case


class _Inner(msgspec.Struct):
    depth: int = 0


class _Config(msgspec.Struct):
    inner: _Inner | None = None
    name: str = ""


def test_class_configs_precede_claim_configs_and_others_are_skipped() -> None:
    configs = (
        opaque(1, "a"),
        opaque(2, source="FromClass"),
        opaque(3, driver="other.example.com"),
        opaque(4, source="FromClass"),
        opaque(5),
    )
    assert configs_for("gpu.nvidia.com", configs) == [((), 2), ((), 4), (("a",), 1), ((), 5)]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (opaque({}, source="FromSpace"), "invalid config source: FromSpace"),
        (
            DeviceAllocationConfiguration(source="FromClaim"),
            "only opaque parameters are supported by this driver",
        ),
    ],
)
def test_an_unknown_configuration_is_an_error(config: DeviceAllocationConfiguration, message: str) -> None:
    with pytest.raises(PrepareError, match=message):
        configs_for("gpu.nvidia.com", (config,))


def test_a_configuration_for_a_request_applies_to_its_subrequests() -> None:
    assert applies_to(("gpu",), "gpu")
    assert applies_to(("gpu",), "gpu/large")
    assert applies_to(("gpu/large",), "gpu/large")
    assert not applies_to(("gpu/large",), "gpu/small")
    assert not applies_to(("gpu",), "gpu2")


def test_parameters_of_a_known_kind_are_decoded() -> None:
    raw = msgspec.Raw(b'{"apiVersion": "x/v1", "kind": "C", "inner": {"depth": 3}}')
    for parameters in (raw, {"apiVersion": "x/v1", "kind": "C", "inner": {"depth": 3}}):
        assert decode_strict(parameters, "x/v1", {"C": _Config}) == _Config(_Inner(3))


@each_case(
    ("parameters", "message"),
    [
        (None, "couldn't get version/kind"),
        ({}, "Object 'Kind' is missing in '{}'"),
        ({"kind": "C"}, "Object 'apiVersion' is missing"),
        ({"kind": "D", "apiVersion": "x/v1"}, 'no kind "D" is registered for version "x/v1"'),
        ({"kind": "C", "apiVersion": "x/v2"}, 'no kind "C" is registered for version "x/v2"'),
        (
            {"kind": "C", "apiVersion": "x/v1", "colour": 1, "inner": {"deep": 1}},
            'strict decoding error: unknown field "colour", unknown field "inner.deep"',
        ),
        ({"kind": "C", "apiVersion": "x/v1", "inner": {"depth": "x"}}, "cannot decode C"),
    ],
)
def test_parameters_of_unknown_or_missing_kinds_are_rejected(parameters: object, message: str) -> None:
    with pytest.raises(PrepareError) as caught:
        decode_strict(parameters, "x/v1", {"C": _Config})
    assert message in str(caught.value)


class _Light(Config):
    brightness: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.brightness <= 100:
            raise ValueError(f"brightness {self.brightness} is not between 0 and 100")


def _light(brightness: object = None) -> dict[str, object]:
    return {"apiVersion": "d.example.com/v1", "kind": "Light"} | (
        {} if brightness is None else {"brightness": brightness}
    )


_LIGHTS = Configs("d.example.com", "d.example.com/v1", {"Light": _Light}, default=_Light(brightness=7))


def _brightness(*configs: DeviceAllocationConfiguration) -> int:
    wanted = claim("uid-1", "dongle-0", driver="d.example.com", configs=configs)
    assert wanted.status.allocation is not None
    (result,) = wanted.status.allocation.devices.results
    return _LIGHTS.of(wanted, result).brightness


def test_the_last_configuration_for_a_request_is_used() -> None:
    driver = "d.example.com"
    of_class = opaque(_light(10), source="FromClass", driver=driver)
    assert _brightness() == 7
    assert _brightness(opaque(_light(), driver=driver)) == 50
    assert _brightness(opaque(_light(20), driver=driver), of_class) == 20
    assert _brightness(of_class, opaque(_light(30), "another", driver=driver)) == 10
    assert _brightness(opaque(_light(40), "r0", driver=driver), opaque({}, driver="other")) == 40


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (_light(101), "brightness 101 is not between 0 and 100"),
        (_light("much"), "cannot decode Light: Expected `int`, got `str`"),
        (_light(1) | {"color": "red"}, 'strict decoding error: unknown field "color"'),
        ({"apiVersion": "d.example.com/v2", "kind": "Light"}, 'no kind "Light" is registered'),
    ],
)
def test_an_invalid_configuration_is_an_error(parameters: object, message: str) -> None:
    with pytest.raises(PrepareError, match=message):
        _brightness(opaque(parameters, driver="d.example.com"))


def test_a_driver_that_defines_no_configuration_kinds_rejects_configurations() -> None:
    wanted = claim("u", "dongle-0", driver="d", configs=(opaque({}, driver="d"),))
    assert wanted.status.allocation is not None
    plain: Configs[_Light] = Configs("d", "", {}, default=_Light())
    with pytest.raises(PrepareError, match="configuration not allowed"):
        plain.of(wanted, wanted.status.allocation.devices.results[0])


class _Large(Config, tag="large"):
    size: int = 0


class _Small(Config, tag="small"):
    size: int = 0


class _Net(Config):
    ports: list[_Inner] = msgspec.field(default_factory=list)
    rows: list[list[_Inner]] = msgspec.field(default_factory=list)
    pair: tuple[_Inner, int] | None = None
    named: dict[str, _Inner] = msgspec.field(default_factory=dict)
    maybe: Optional[_Inner] = None  # noqa: UP045  # users write it, too
    either: _Large | _Small | None = None
    mtu: int = 1500
    free: Any = None


def _decode(**fields: Any) -> _Net:
    return decode_strict({"apiVersion": "x/v1", "kind": "Net", **fields}, "x/v1", {"Net": _Net})


@each_case(
    ("fields", "paths"),
    [
        ({"ports": [{"depth": 1}, {"deep": 1}]}, ["ports[1].deep"]),
        ({"rows": [[{"deep": 1}]]}, ["rows[0][0].deep"]),
        ({"pair": [{"deep": 1}, 2]}, ["pair[0].deep"]),
        ({"named": {"a": {"deep": 1}, "b": {"deep": 1}}}, ["named.a.deep", "named.b.deep"]),
        ({"maybe": {"deep": 1}}, ["maybe.deep"]),
        ({"either": {"type": "small", "mass": 1}}, ["either.mass"]),
        ({"MTU": 9000}, ["MTU"]),
    ],
)
def test_unknown_fields_are_rejected_at_every_depth(fields: dict[str, Any], paths: list[str]) -> None:
    """sigs.k8s.io/json names them by the same paths."""
    with pytest.raises(PrepareError) as caught:
        _decode(**fields)
    unknown = ", ".join(f'unknown field "{path}"' for path in paths)
    assert str(caught.value) == f"strict decoding error: {unknown}"


@each_case(
    "fields", [{"mtu": 1.0}, {"mtu": "1"}, {"mtu": True}, {"ports": {}}, {"named": []}, {"maybe": [1]}]
)
def test_other_types_are_rejected_at_every_depth(fields: dict[str, Any]) -> None:
    with pytest.raises(PrepareError, match="cannot decode Net: Expected"):
        _decode(**fields)


def test_null_leaves_a_field_at_its_default() -> None:
    """Go's decoders do the same, except for types that decode null themselves."""
    found = _decode(mtu=None, ports=None, maybe=None, free=None, named={"a": {"depth": None}})
    assert found == _Net(named={"a": _Inner()})


def test_known_fields_at_every_depth_are_accepted() -> None:
    found = _decode(either={"type": "large", "size": 2}, pair=[{"depth": 1}, 2], free={"any": [{"thing": 1}]})
    assert found == _Net(either=_Large(size=2), pair=(_Inner(1), 2), free={"any": [{"thing": 1}]})


class _Whole(Config):
    mode: str = "alone"


class _Part(Config):
    share: int = 50


_TYPED: Configs[_Whole | _Part] = Configs(
    "d.example.com", "d/v1", {"Whole": _Whole, "Part": _Part}, default=[_Whole(), _Part()]
)


def _choose_typed(kind: type[Any], *configs: DeviceAllocationConfiguration) -> Any:
    wanted = claim("uid-1", "dongle-0", driver="d.example.com", configs=configs)
    assert wanted.status.allocation is not None
    return _TYPED.of(wanted, wanted.status.allocation.devices.results[0], kind)


def _opaque_kind(kind: str, *requests: str, **fields: Any) -> DeviceAllocationConfiguration:
    return opaque({"apiVersion": "d/v1", "kind": kind, **fields}, *requests, driver="d.example.com")


def test_a_configuration_for_all_requests_is_for_the_devices_of_its_type() -> None:
    configs = _opaque_kind("Part", share=20), _opaque_kind("Whole", mode="shared")
    assert _choose_typed(_Part, *configs) == _Part(share=20)
    assert _choose_typed(_Whole, *configs) == _Whole(mode="shared")
    assert _choose_typed(_Whole, configs[0]) == _Whole()


def test_a_configuration_that_names_a_request_must_have_its_devices_type() -> None:
    assert _choose_typed(_Part, _opaque_kind("Part", "r0", share=10)) == _Part(share=10)
    with pytest.raises(PrepareError, match=r'cannot apply _Whole to device "dongle-0" \(request: r0\)'):
        _choose_typed(_Part, _opaque_kind("Whole", "r0"))


def test_a_device_without_a_configuration_of_its_type_is_rejected() -> None:
    with pytest.raises(PrepareError, match='no config applies to device "dongle-0"'):
        _choose_typed(_Light)
