import msgspec
import pytest
from dra_driverkit.errors import PrepareError
from dra_driverkit.opaque import Config, Configs, applies_to, configs_for, decode_strict
from dra_shared.api.resource import DeviceAllocationConfiguration

from tests.driverkit.claims import claim, opaque


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


def test_a_known_kind_is_decoded() -> None:
    raw = msgspec.Raw(b'{"apiVersion": "x/v1", "kind": "C", "inner": {"depth": 3}}')
    for parameters in (raw, {"apiVersion": "x/v1", "kind": "C", "inner": {"depth": 3}}):
        assert decode_strict(parameters, "x/v1", {"C": _Config}) == _Config(_Inner(3))


@pytest.mark.parametrize(
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
def test_other_parameters_are_rejected(parameters: object, message: str) -> None:
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


def test_a_driver_without_configurations_rejects_them() -> None:
    wanted = claim("u", "dongle-0", driver="d", configs=(opaque({}, driver="d"),))
    assert wanted.status.allocation is not None
    plain: Configs[_Light] = Configs("d", "", {}, default=_Light())
    with pytest.raises(PrepareError, match="configuration not allowed"):
        plain.of(wanted, wanted.status.allocation.devices.results[0])
