"""The structured allocator: finds the devices that satisfy a pod's claims on one node.

Pure: no I/O, no clock, no random numbers. The answer (devices, order, every field, every error text) is that of
Kubernetes 1.36 (k8s.io/dynamic-resource-allocation/structured; "stable", "incubating" or "experimental",
depending on the enabled features). Usage::

    from dra_scheduler.allocator import Allocator, AllocatedState, Features
    allocator = Allocator(Features.from_gates(gates), AllocatedState(), classes, slices)
    results = allocator.allocate(node, claims)      # one AllocationResult a claim, or None: does not fit this node

``Features.from_gates(FeatureGates)``
    the optional features that are on; ``Features(consumable_capacity=True, …)`` sets them directly.

``AllocatedState()``
    the devices in use. The caller keeps it up to date, one claim at a time; the allocator reads it at each
    call:

    * ``state.add(claim)`` / ``state.remove(claim)``: a claim with ``status.allocation`` was added, changed or
      deleted. Adding a claim again replaces its earlier allocation. Devices with admin access do not count as
      held. An allocation with a share id is one of a shared device.
    * ``state.owner(device_id) -> tuple[str, ...]``: keys of the claims that hold (a share of) the device.
    * ``state.copy()``: an independent copy, for trying changes.

``Snapshot(features)``
    all ResourceSlices, indexed by pool and node. Pass a snapshot instead of an iterable of slices, and keep it
    up to date:

    * ``snapshot.set_slice(slice)`` / ``snapshot.delete_slice(name)``
    * ``snapshot.pools(node) -> tuple[Pool, ...]``: the pools that the node can reach, in allocation order.

``Allocator(features, allocated, classes, slices, *, compile=None, share_ids=…)``
    ``classes``: mapping of name to DeviceClass, or a callable that returns one (None or ``ClassLookupError`` if
    the class does not exist); ``slices``: a Snapshot or an iterable of ResourceSlice; ``share_ids``: callable
    that returns the share id for a picked device (``lambda pick: str(uuid4())``; by default derived from claim,
    request and device); ``compile``: callable that compiles a CEL expression (``dra_shared.cel`` by default).
    Cheap to construct from a Snapshot. Reuse the allocator, because it caches selector results between calls.

    * ``allocate(node, claims, *, check=None, trace=None) -> tuple[AllocationResult, ...] | None``. ``check`` is
      called from time to time during the search. It stops the search by raising, for example
      ``TimeLimit("context deadline exceeded")``. Pass the same claim objects for all nodes of one scheduling
      attempt: checks that depend only on the claims are then made once.
    * ``stamp(node_name) -> tuple[int, ...]``: equal stamps mean that slices and allocations have not changed in any way
      that could change the answer for that node (given equal claims, classes and node object).

``AllocationError``
    ``str(error)`` is upstream's text; ``error.only_this_node`` is true if the allocation may still succeed on
    other nodes (upstream's ErrFailedAllocationOnNode), and false if the whole scheduling attempt fails.

``Trace()``
    pass a trace to record why each pool, device and request was rejected; see ``trace``.
"""

from dra_scheduler.allocator.allocation import Allocator, Classes
from dra_scheduler.allocator.errors import AllocationError, ClassLookupError, TimeLimit
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.picks import Pick
from dra_scheduler.allocator.pools import Pool, PoolDevice
from dra_scheduler.allocator.snapshot import Snapshot
from dra_scheduler.allocator.state import AllocatedState, DeviceID
from dra_scheduler.allocator.trace import Trace

__all__ = [
    "AllocatedState",
    "AllocationError",
    "Allocator",
    "ClassLookupError",
    "Classes",
    "DeviceID",
    "Features",
    "Pick",
    "Pool",
    "PoolDevice",
    "Snapshot",
    "TimeLimit",
    "Trace",
]
