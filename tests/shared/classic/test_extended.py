"""Test the conversion of device plugins' extended resources to claims."""

from typing import Any

from dra_shared.classic import convert
from dra_shared.classic.notes import find_lost


def _pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    spec = {"containers": list(containers), **({"initContainers": list(init)} if init else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def _container(name: str, **limits: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"limits": dict(limits)}}


def _gpus(name: str, count: Any) -> dict[str, Any]:
    return _container(name, **{"nvidia.com/gpu": count})


def test_each_container_has_its_own_devices() -> None:
    template, pod = convert([_pod(_gpus("a", 2), _gpus("b", "1"))], {}).objects
    assert [
        (one["name"], one["exactly"]["deviceClassName"], one["exactly"]["count"])
        for one in template["spec"]["spec"]["devices"]["requests"]
    ] == [("a-gpu", "gpu.nvidia.com", 2), ("b-gpu", "gpu.nvidia.com", 1)]
    assert [one["resources"] for one in pod["spec"]["containers"]] == [
        {"claims": [{"name": "devices", "request": "a-gpu"}]},
        {"claims": [{"name": "devices", "request": "b-gpu"}]},
    ]
    assert pod["spec"]["resourceClaims"] == [
        {"name": "devices", "resourceClaimTemplateName": template["metadata"]["name"]}
    ]


def test_containers_reuse_the_devices_of_init_containers() -> None:
    template, pod = convert(
        [_pod(_gpus("main", 1), init=(_gpus("first", 1), _gpus("second", 1)))], {}
    ).objects
    assert len(template["spec"]["spec"]["devices"]["requests"]) == 1
    claims = [one["resources"]["claims"][0]["request"] for one in pod["spec"]["initContainers"]]
    assert claims == ["main-gpu", "main-gpu"]


def test_a_sidecar_keeps_its_devices() -> None:
    sidecar = {**_gpus("side", 1), "restartPolicy": "Always"}
    template, _ = convert([_pod(_gpus("main", 1), init=(sidecar,))], {}).objects
    names = [one["name"] for one in template["spec"]["spec"]["devices"]["requests"]]
    assert sorted(names) == ["main-gpu", "side-gpu"]


def test_an_extended_resource_for_mig_is_converted_to_a_profile_selector() -> None:
    template, _ = convert([_pod(_container("a", **{"nvidia.com/mig-1g.10gb.me": 1}))], {}).objects
    [request] = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "mig.nvidia.com"
    assert request["exactly"]["selectors"][0]["cel"]["expression"].endswith("profile == '1g.10gb+me'")


def test_a_resource_of_an_unknown_driver_needs_a_class() -> None:
    pod = _pod(_container("a", **{"acme.com/nic": 1}))
    conversion = convert([pod], {})
    assert list(conversion.objects) == [pod]
    [note] = find_lost(conversion.notes)
    assert "--class acme.com/nic=CLASS" in note.text
    template, _ = convert([pod], {"acme.com/nic": "nics"}).objects
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "nics"


def test_resources_other_than_extended_ones_are_not_converted() -> None:
    container = _container("a", cpu="1", **{"nvidia.com/gpu": 1, "kubernetes.io/x": 1})
    _, pod = convert([_pod(container)], {}).objects
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "kubernetes.io/x": 1}


def test_a_quota_for_an_extended_resource_is_converted_to_one_for_the_device_class() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4", "pods": "3"}},
    }
    [changed] = convert([quota], {}).objects
    assert changed["spec"]["hard"] == {
        "pods": "3",
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "4",
    }


def test_extended_resources_are_kept_without_the_option() -> None:
    pod = _pod(_gpus("a", 1))
    assert list(convert([pod]).objects) == [pod]
