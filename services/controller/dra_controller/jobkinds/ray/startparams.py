"""The ``ray start`` command of a node.

Mirrors setMissingRayStartParams and generateRayStartCommand in ray-operator/controllers/ray/common/pod.go.
"""

import json
import re
from collections.abc import Mapping

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

GCS_PORT = "6379"
_AGENT_PORT = "52365"
_METRICS_PORT = "8080"
_ACCELERATORS = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")
# Options that take the words true and false.
_WITH_VALUE = ("log-color", "include-dashboard", "include-log-monitor")


def head_port(params: Mapping[str, str]) -> str:
    """Return the port by which workers find the head."""
    return params.get("port", GCS_PORT)


def complete_params(group: JsonObject, resources: JsonObject, address: str) -> dict[str, str]:
    """Return the parameters of the nodes of a group. ``address`` is the head's; empty for the head itself."""
    params = dict(group.get("rayStartParams") or {})
    _add_group_resources(params, group.get("resources") or {})
    labels = group.get("labels") or {}
    if labels:
        params["labels"] = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    if address:
        params.setdefault("address", address)
    else:
        params.setdefault("dashboard-host", "0.0.0.0")
    params.setdefault("metrics-export-port", _METRICS_PORT)
    params["block"] = "true"
    params.setdefault("dashboard-agent-listen-port", _AGENT_PORT)
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    cpus = _whole(limits.get("cpu")) or _whole(requests.get("cpu"))
    if cpus:
        params.setdefault("num-cpus", str(cpus))
    if _whole(limits.get("memory")):
        params.setdefault("memory", str(_whole(limits["memory"])))
    _add_accelerators(params, limits)
    return params


def format_command(params: Mapping[str, str], *, head: bool) -> str:
    """Return the command."""
    words = []
    for name in sorted(params):
        value = params[name]
        if value.lower() in ("true", "false") and name not in _WITH_VALUE:
            if value.lower() == "true":
                words.append(f" --{name} ")
        else:
            words.append(f" --{name}={value} ")
    return f"ray start {'--head ' if head else ''}{''.join(words)}"


def _whole(quantity: object) -> int:
    return Quantity.parse(str(quantity)).value() if quantity is not None else 0


def _is_gpu(name: str) -> bool:
    return name.endswith("gpu") or _MIG.search(name) is not None


def _add_group_resources(params: dict[str, str], resources: Mapping[str, str]) -> None:
    others: dict[str, float] = {}
    for name, quantity in resources.items():
        lower = name.lower()
        if lower == "cpu":
            params["num-cpus"] = str(_whole(quantity))
        elif lower == "memory":
            params["memory"] = str(_whole(quantity))
        elif _is_gpu(lower):
            params["num-gpus"] = str(_whole(quantity))
        else:
            others[name] = _whole(quantity)
    if others:
        params["resources"] = _quote(others)


def _add_accelerators(params: dict[str, str], limits: Mapping[str, object]) -> None:
    try:
        known = json.loads(params.get("resources", "{}").strip("'\"` "))
    except ValueError:
        # Ignore the error, as the operator does, which only logs it.
        return
    added = any(name in known for name in _ACCELERATORS.values())
    for name in sorted(limits):
        number = _whole(limits[name])
        if _is_gpu(name) and number:
            params.setdefault("num-gpus", str(number))
        if name in _ACCELERATORS and number and not added:
            params["resources"] = _quote({**known, _ACCELERATORS[name]: number})
            added = True


def _quote(resources: Mapping[str, float]) -> str:
    return f"'{json.dumps(dict(sorted(resources.items())), separators=(',', ':'))}'"
