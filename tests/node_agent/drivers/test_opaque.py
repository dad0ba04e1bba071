import msgspec
import pytest
from dra_node_agent.drivers.errors import PrepareError
from dra_node_agent.drivers.opaque import applies_to, configs_for, decode_strict
from dra_shared.api.resource import DeviceAllocationConfiguration

from tests.node_agent.drivers.claims import opaque


class _Inner(msgspec.Struct):
    depth: int = 0


class _Config(msgspec.Struct):
    inner: _Inner | None = None
    name: str = ""


def test_class_configs_come_before_claim_configs_and_others_are_skipped() -> None:
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
def test_what_the_driver_does_not_know_is_an_error(
    config: DeviceAllocationConfiguration, message: str
) -> None:
    with pytest.raises(PrepareError, match=message):
        configs_for("gpu.nvidia.com", (config,))


def test_a_main_request_stands_for_its_subrequests() -> None:
    assert applies_to(("gpu",), "gpu")
    assert applies_to(("gpu",), "gpu/large")
    assert applies_to(("gpu/large",), "gpu/large")
    assert not applies_to(("gpu/large",), "gpu/small")
    assert not applies_to(("gpu",), "gpu2")


def test_decodes_a_known_kind() -> None:
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
def test_refuses_all_else(parameters: object, message: str) -> None:
    with pytest.raises(PrepareError) as caught:
        decode_strict(parameters, "x/v1", {"C": _Config})
    assert message in str(caught.value)
