"""The requests of ``POST /plan/…``: a structure for each question. Objects are ``v1`` and ``resource.k8s.io/v1``."""

from typing import Any

from dra_shared.api.meta import Struct


class FitRequest(Struct):
    """Pods, with the claims, templates and groups that they refer to.

    ``count`` copies of the pods are tried, or with ``max`` as many as fit. With ``more``, further copies
    that would fit are counted. ``without`` names nodes to leave out.
    """

    objects: tuple[dict[str, Any], ...]
    count: int | None = None
    max: bool = False
    more: bool = False
    without: tuple[str, ...] = ()


class NodesRequest(Struct):
    """Nodes to drain, remove or upgrade. No node means all nodes when upgrading."""

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
    """An edit: ``objects`` are added or replaced, and nodes to ``remove`` are removed with their pods.

    The scheduler then runs with ``feature_gates`` (the syntax of ``--feature-gates``),
    ``kubernetes_version`` and ``config``, a KubeSchedulerConfiguration.
    """

    objects: tuple[dict[str, Any], ...] = ()
    remove: tuple[str, ...] = ()
    feature_gates: str = ""
    kubernetes_version: str = ""
    config: dict[str, Any] | None = None
    name: str = ""


class NodeTypeRequest(Struct):
    """Nodes that can be bought. ``objects`` are a Node and its ResourceSlices, which are copied for each new node.

    DeviceClasses among them are added if the cluster lacks them.
    """

    name: str
    price: float
    objects: tuple[dict[str, Any], ...]
    limit: int | None = None


class PurchaseRequest(Struct):
    """The node types, and pods in addition to the waiting ones. ``seconds`` limits the search."""

    types: tuple[NodeTypeRequest, ...]
    objects: tuple[dict[str, Any], ...] = ()
    count: int | None = None
    seconds: float = 20.0


class PackRequest(Struct):
    """Pods to make room for, if any. ``seconds`` limits the search for moves."""

    objects: tuple[dict[str, Any], ...] = ()
    count: int | None = None
    seconds: float = 20.0


class ArrivalRequest(Struct):
    """``object`` is a pod that arrives at ``at`` seconds and stays for ``lasts`` seconds, or forever."""

    at: float
    object: dict[str, Any]
    lasts: float | None = None


class ReplayRequest(Struct):
    """A timeline, and in ``objects`` everything its pods refer to. The ``changes`` are cumulative."""

    arrivals: tuple[ArrivalRequest, ...]
    objects: tuple[dict[str, Any], ...] = ()
    changes: tuple[ChangeRequest, ...] = ()
    starved_after: float = 600.0
