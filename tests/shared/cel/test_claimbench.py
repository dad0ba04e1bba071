"""Test the report about a claim: which devices each request matches, and which constraints they satisfy."""

from dra_shared.api.resource import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
)
from dra_shared.cel.claimbench import ClaimAnswer, examine, select_by_class
from dra_shared.cel.workbench import Candidate
from dra_shared.features import FeatureGates

_DRIVER = "gpu.example.com"
_MODEL = f"{_DRIVER}/model"


def _selector(expression: str) -> DeviceSelector:
    return DeviceSelector(cel=CELDeviceSelector(expression=expression))


def _device(name: str, model: str, driver: str = _DRIVER, **more: str) -> Candidate:
    attributes = {"model": DeviceAttribute(string=model)}
    attributes.update((key.replace("_", "/"), DeviceAttribute(string=value)) for key, value in more.items())
    return Candidate(driver, "pool", "node", Device(name=name, attributes=attributes))


_DEVICES = [
    _device("a", "A100", **{"example.com_root": "one"}),
    _device("b", "A100", **{"example.com_root": "two"}),
    _device("c", "T4"),
    _device("n", "NIC", driver="nic.example.com"),
]
_CLASSES = {
    "gpu": DeviceClass(spec=DeviceClassSpec(selectors=(_selector(f"device.driver == '{_DRIVER}'"),))),
}


def _model(name: str) -> DeviceSelector:
    return _selector(f"device.attributes['{_DRIVER}'].model == '{name}'")


def _examine(*requests: DeviceRequest, constraints: tuple[DeviceConstraint, ...] = ()) -> ClaimAnswer:
    claim = DeviceClaim(requests=requests, constraints=constraints)
    return examine(claim, _CLASSES, _DEVICES, FeatureGates(), most=2)


def test_devices_must_match_the_selectors_of_the_class_and_of_the_request() -> None:
    exactly = ExactDeviceRequest(device_class_name="gpu", count=2, selectors=(_model("A100"),))
    (request,) = _examine(DeviceRequest(name="gpu", exactly=exactly)).requests
    assert (request.name, request.mode, request.count) == ("gpu", "ExactCount", 2)
    assert (request.matches, request.devices) == (2, 4)
    assert [(one.of_class, one.matches) for one in request.selectors] == [(True, 3), (False, 2)]
    assert [(one.device, one.selectors) for one in request.findings] == [
        ("a", (True, True)),
        ("b", (True, True)),
    ]
    assert request.findings[0].values == {_MODEL: "A100"}


def test_the_claim_report_lists_each_alternative_and_names_missing_classes() -> None:
    big = DeviceSubRequest(name="big", device_class_name="gpu", selectors=(_model("H100"),))
    every = DeviceSubRequest(name="all", device_class_name="none", allocation_mode="All")
    first, second = _examine(DeviceRequest(name="gpu", first_available=(big, every))).requests
    assert (first.name, first.matches, first.count) == ("gpu/big", 0, 1)
    # The closest match is shown first.
    assert {one.device for one in first.findings} < {"a", "b", "c"}
    assert (second.name, second.mode, second.count) == ("gpu/all", "All", 0)
    assert second.problem == 'device class "none" does not exist'


def test_a_selector_that_fails_to_evaluate_matches_no_device() -> None:
    selectors = (_selector("device.drivr"), _selector("device.attributes['gpu.example.com'].speed > 1"))
    exactly = ExactDeviceRequest(device_class_name="gpu", selectors=selectors)
    (request,) = _examine(DeviceRequest(name="gpu", exactly=exactly)).requests
    assert request.matches == 0
    assert [one.message for one in request.selectors[1].problems] == ["undefined field 'drivr'"]
    assert request.findings[0].selectors == (True, False, "no such key: speed")


def test_a_constraint_is_satisfied_by_devices_with_one_common_value() -> None:
    gpus = DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu"))
    cards = DeviceSubRequest(name="t4", device_class_name="gpu", selectors=(_model("T4"),))
    other = DeviceRequest(name="other", first_available=(cards,))
    same = DeviceConstraint(match_attribute="example.com/root", requests=("gpu",))
    different = DeviceConstraint(distinct_attribute=_MODEL, requests=("other",))
    report = _examine(gpus, other, constraints=(same, different))
    first, second = report.constraints
    assert (first.attribute, first.distinct, first.values) == (
        "example.com/root",
        False,
        {"one": 1, "two": 1},
    )
    assert first.without == 1
    assert (second.distinct, second.values, second.without) == (True, {"T4": 1}, 0)


def test_the_report_about_a_class_has_its_devices_or_the_problem_of_its_selector() -> None:
    broken = DeviceClass(spec=DeviceClassSpec(selectors=(_selector("device.nonsense"),)))
    a100 = DeviceClass(spec=DeviceClassSpec(selectors=(*_CLASSES["gpu"].spec.selectors, _model("A100"))))
    classes = {"all": DeviceClass(spec=DeviceClassSpec()), "broken": broken, "a100": a100, **_CLASSES}
    found = {one.name: one for one in select_by_class(classes, _DEVICES, FeatureGates()).classes}
    assert {name: one.devices for name, one in found.items()} == {
        "a100": (0, 1),
        "all": (0, 1, 2, 3),
        "broken": (),
        "gpu": (0, 1, 2),
    }
    assert "undefined field 'nonsense'" in found["broken"].problem
    assert found["gpu"].problem == ""
