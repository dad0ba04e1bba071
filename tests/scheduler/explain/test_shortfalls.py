"""What selectors ask for and no device has, and what comes nearest to it."""

from typing import Any

import pytest
from dra_scheduler.explain.text import render_class

from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, running
from tests.support.fakeapi import FakeApi, Json
from tests.support.waiting import eventually

_ATTRIBUTES = {"productName": {"string": "NVIDIA A100-SXM4-40GB"}, "typeName": {"string": "gpu"}}


def _class(expression: str, **spec: Any) -> Json:
    return class_json(selectors=[{"cel": {"expression": expression}}], **spec)


def _of(name: str) -> str:
    return f"device.attributes['{DRIVER}'].{name}"


async def _event(*objects: Json, pod: Json | None = None) -> str:
    api = FakeApi(node_json("a"), slice_json("a", 2, attributes=_ATTRIBUTES), *objects)
    async with running(api):
        api.add(pod or pod_json("p", claims={"gpu": "c"}))
        await eventually(lambda: condition(api, "p"))
        await eventually(lambda: events(api, "p"))
        # The condition stays upstream's.
        assert "nearest" not in condition(api, "p")["message"]
    return events(api, "p")[0]


async def test_a_value_that_no_device_has() -> None:
    text = 'class gpu: no device has productName "NVIDIA A100", nearest seen "NVIDIA A100-SXM4-40GB"]'
    assert (await _event(_class(f"{_of('productName')} == 'NVIDIA A100'"), claim_json("c"))).endswith(text)


async def test_a_value_that_a_request_asks_for() -> None:
    selectors = [{"cel": {"expression": f"{_of('productName')} in ['H100', 'NVIDIA A100']"}}]
    text = 'request gpu: no device has productName "H100" or "NVIDIA A100", nearest seen "NVIDIA A100-SXM4-40GB"]'
    claim = claim_json("c", request={"selectors": selectors})
    assert (await _event(class_json(), claim)).endswith(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("type", f'no device has attribute "type" of {DRIVER}, nearest seen "typeName"'),
        ("zone", f'no device has attribute "zone" of {DRIVER}, seen productName, typeName'),
    ],
)
async def test_an_attribute_that_no_device_has(name: str, text: str) -> None:
    device_class = _class(f"device.driver == '{DRIVER}' && {_of(name)} == 'gpu'")
    assert f"class gpu: {text}" in await _event(device_class, claim_json("c"))


async def test_the_class_of_an_extended_resource() -> None:
    device_class = _class(f"{_of('type')} == 'gpu'", extendedResourceName="example.com/gpu")
    pod = pod_json("p", requests={"example.com/gpu": "1"})
    assert 'no device has attribute "type"' in await _event(device_class, pod=pod)


async def test_what_some_device_has_is_no_shortfall() -> None:
    taken = _class(f"{_of('productName')} == 'NVIDIA A100-SXM4-40GB' && {_of('typeName')} == 'gpu'")
    assert "no device has" not in await _event(taken, claim_json("c", request={"count": 3}))


async def test_a_class_by_itself() -> None:
    expression = f"device.driver == '{DRIVER}' && {_of('type')} == 'gpu'"
    api = FakeApi(_class(expression), slice_json("a", 2, attributes=_ATTRIBUTES))
    async with running(api) as (scheduler, _):
        report = scheduler.explainer.device_class("gpu")
        assert scheduler.explainer.device_class("other") is None
        assert report is not None
        assert render_class(report) == (
            "class gpu: selects 0 of 2 devices\n"
            f"  selector #0, true for 0 devices: {expression}\n"
            "    2 devices: CEL runtime error: no such key: type\n"
            f'    no device has attribute "type" of {DRIVER}, nearest seen "typeName"\n'
        )
        api.add(slice_json("b", 1, attributes={"type": {"string": "gpu"}}))
        await eventually(lambda: scheduler.manager.slices.get("b-gpus"))
        report = scheduler.explainer.device_class("gpu")
        assert report is not None
        assert (report.selected, report.devices) == (1, 3)
        assert report.selectors[0].shortfalls == ()
