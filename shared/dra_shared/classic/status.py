"""Convert a claim's current status to v1alpha2: `driverName`, `resourceHandles`."""

import json
from typing import Any

from dra_shared.jsontypes import JsonObject

_MOST_HANDLES = 32


def old_status(status: JsonObject, driver_name: str, structured: bool) -> JsonObject:
    """Return the status of a classic claim, from that of the current claim behind it.

    ``driver_name`` is that of the class. With ``structured`` parameters, a handle names each device. Without,
    it has a text that only the driver's plugin understands.
    """
    found: JsonObject = {}
    allocation = status.get("allocation")
    if allocation is not None:
        found["driverName"] = driver_name
        found["allocation"] = _allocation(allocation, driver_name, structured)
    if reserved := status.get("reservedFor"):
        found["reservedFor"] = reserved
    return found


def node_of(allocation: JsonObject | None) -> str:
    """Return the node that an allocation is on; empty if it is on none or on several."""
    for term in ((allocation or {}).get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for requirement in term.get("matchFields") or ():
            values = requirement.get("values") or []
            if requirement.get("key") == "metadata.name" and len(values) == 1:
                return str(values[0])
    return ""


def _allocation(allocation: JsonObject, driver_name: str, structured: bool) -> JsonObject:
    devices = allocation.get("devices") or {}
    by_driver: dict[str, list[JsonObject]] = {}
    for result in devices.get("results") or ():
        by_driver.setdefault(result["driver"], []).append(result)
    handles = [
        _handle(driver_name if len(by_driver) == 1 else driver, results, allocation, structured)
        for driver, results in by_driver.items()
    ]
    found: JsonObject = {"resourceHandles": handles[:_MOST_HANDLES], "shareable": True}
    if selector := allocation.get("nodeSelector"):
        found["availableOnNodes"] = selector
    return found


def _handle(driver: str, results: list[JsonObject], allocation: JsonObject, structured: bool) -> JsonObject:
    if not structured:
        chosen = [{name: result[name] for name in ("request", "pool", "device")} for result in results]
        return {"driverName": driver, "data": json.dumps({"devices": chosen}, separators=(",", ":"))}
    configs = [
        config
        for config in (allocation.get("devices") or {}).get("config") or ()
        if (config.get("opaque") or {}).get("driver") in {result["driver"] for result in results}
    ]
    data: dict[str, Any] = {"results": [_result(result, configs) for result in results]}
    if node := node_of(allocation):
        data["nodeName"] = node
    data |= _parameters("vendorClassParameters", [one for one in configs if one.get("source") == "FromClass"])
    data |= _parameters(
        "vendorClaimParameters",
        [one for one in configs if one.get("source") != "FromClass" and not one.get("requests")],
    )
    return {"driverName": driver, "structuredData": data}


def _result(result: JsonObject, configs: list[JsonObject]) -> JsonObject:
    own = [
        one
        for one in configs
        if one.get("source") != "FromClass" and result["request"] in (one.get("requests") or ())
    ]
    return {
        **_parameters("vendorRequestParameters", own),
        "namedResources": {"name": result["device"]},
    }


def _parameters(name: str, configs: list[JsonObject]) -> JsonObject:
    """Return the field `name` with the parameters of the first configuration, or nothing."""
    return {name: configs[0]["opaque"]["parameters"]} if configs else {}
