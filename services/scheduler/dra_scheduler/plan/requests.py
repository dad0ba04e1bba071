"""What ``POST /plan/…`` takes: a structure for each question. Objects: ``v1``, ``resource.k8s.io/v1``."""

from typing import Any

from dra_shared.api.meta import Struct


class FitRequest(Struct):
    """Pods, with the claims, templates and groups that they refer to.

    ``count`` copies of the pods are tried, or with ``max`` as many as fit. With ``more`` further copies that would fit
    are counted. ``without`` are names of nodes to leave out.
    """

    objects: tuple[dict[str, Any], ...]
    count: int | None = None
    max: bool = False
    more: bool = False
    without: tuple[str, ...] = ()


class NodesRequest(Struct):
    """Nodes to drain, to remove or to upgrade; to upgrade, none means all."""

    nodes: tuple[str, ...] = ()


class TaintRequest(Struct):
    """A taint on ``node``, or on ``device`` of the ``driver`` in ``pool``."""

    key: str
    effect: str
    value: str = ""
    node: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class ChangeRequest(Struct):
    """An edit: ``objects`` take the place of those of the same names, nodes to ``remove`` go with their pods.

    ``feature_gates`` as ``--feature-gates`` takes them, ``kubernetes_version`` and ``config``, a
    KubeSchedulerConfiguration, are what the scheduler runs with from there on.
    """

    objects: tuple[dict[str, Any], ...] = ()
    remove: tuple[str, ...] = ()
    feature_gates: str = ""
    kubernetes_version: str = ""
    config: dict[str, Any] | None = None
    name: str = ""


class NodeTypeRequest(Struct):
    """Nodes that can be bought: ``objects`` are a Node and its ResourceSlices, of which each new one is a copy.

    DeviceClasses among them are for a cluster that lacks them.
    """

    name: str
    price: float
    objects: tuple[dict[str, Any], ...]
    limit: int | None = None


class PurchaseRequest(Struct):
    """The types, and pods that come on top of those that wait; ``seconds`` is how long the search may take."""

    types: tuple[NodeTypeRequest, ...]
    objects: tuple[dict[str, Any], ...] = ()
    count: int | None = None
    seconds: float = 20.0


class PackRequest(Struct):
    """Pods to make room for, if any; ``seconds`` is how long the search for moves may take."""

    objects: tuple[dict[str, Any], ...] = ()
    count: int | None = None
    seconds: float = 20.0


class ArrivalRequest(Struct):
    """``object`` is a pod that comes ``at`` so many seconds and stays for ``lasts`` seconds, or for good."""

    at: float
    object: dict[str, Any]
    lasts: float | None = None


class ReplayRequest(Struct):
    """A timeline, and in ``objects`` what its pods refer to; ``changes`` are tried each on top of those before it."""

    arrivals: tuple[ArrivalRequest, ...]
    objects: tuple[dict[str, Any], ...] = ()
    changes: tuple[ChangeRequest, ...] = ()
    starved_after: float = 600.0
