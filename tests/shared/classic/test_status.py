"""A claim's status in the form of v1alpha2."""

from typing import Any

from dra_shared.classic.status import old_status

_DRIVER = "gpu.nvidia.com"


def _config(source: str, kind: str, *requests: str, driver: str = _DRIVER) -> dict[str, Any]:
    opaque = {"driver": driver, "parameters": {"kind": kind}}
    return {"source": source, "requests": list(requests), "opaque": opaque}


def test_structured_handle_has_the_parameters_of_class_claim_and_request() -> None:
    results = [
        {"driver": _DRIVER, "pool": "node-1", "device": f"gpu-{index}", "request": request}
        for index, request in enumerate(("training", "inference"))
    ]
    config = [
        _config("FromClass", "OfClass", "training"),
        _config("FromClaim", "OfOtherDriver", driver="nic.example.com"),
        _config("FromClaim", "OfClaim"),
        _config("FromClaim", "OfInference", "inference"),
    ]
    allocation = {"devices": {"results": results, "config": config}}
    status = old_status({"allocation": allocation}, _DRIVER, structured=True)
    assert status["allocation"]["resourceHandles"] == [
        {
            "driverName": _DRIVER,
            "structuredData": {
                "vendorClassParameters": {"kind": "OfClass"},
                "vendorClaimParameters": {"kind": "OfClaim"},
                "results": [
                    {"namedResources": {"name": "gpu-0"}},
                    {
                        "vendorRequestParameters": {"kind": "OfInference"},
                        "namedResources": {"name": "gpu-1"},
                    },
                ],
            },
        }
    ]
