"""The structured allocator: finds the devices that satisfy a pod's claims on one node.

Pure: no I/O, no clock, no randomness of its own. The answer (devices, order, every field, every error text) is that
of Kubernetes 1.36 (k8s.io/dynamic-resource-allocation/structured; "stable", "incubating" or "experimental", as the
features have it). In three lines::

    from dra_scheduler.allocator import Allocator, AllocatedState, Features
    allocator = Allocator(Features.from_gates(gates), AllocatedState(), classes, slices)
    results = allocator.allocate(node, claims)      # one AllocationResult a claim, or None: does not fit this node

``Features.from_gates(FeatureGates)``
    which parts are on; ``Features(consumable_capacity=True, …)`` by hand.

``AllocatedState()``
    what is in use, kept up to date by its owner, one claim at a time; the allocator reads it at each call:

    * ``state.add(claim)`` / ``state.remove(claim)``: a claim with ``status.allocation`` came, changed or went. Counts
      once per claim key; ``add`` again replaces. Admin access holds nothing; share ids make shared allocations.
    * ``state.owner(device_id) -> tuple[str, ...]``: keys of the claims that hold (a share of) the device.
    * ``state.copy()``: an independent copy, for what-if questions.

``Snapshot(features)``
    the slices, indexed by pool and node; pass one instead of an iterable of slices, and keep it up to date:

    * ``snapshot.set_slice(slice)`` / ``snapshot.delete_slice(name)``
    * ``snapshot.pools(node) -> tuple[Pool, ...]``: what that node sees, in allocation order.

``Allocator(features, allocated, classes, slices, *, compile=None, share_ids=…)``
    ``classes``: mapping of name to DeviceClass, or a callable that returns one (None or ``ClassLookupError``: there is
    none); ``slices``: a Snapshot or an iterable of ResourceSlice; ``share_ids``: callable giving the share id
    of a pick (``lambda pick: str(uuid4())``; by default derived from claim, request and device); ``compile``:
    expression to program (``dra_shared.cel`` by default). Cheap to construct over a Snapshot,
    and meant to be kept: it remembers verdicts between calls.

    * ``allocate(node, claims, *, check=None, trace=None) -> tuple[AllocationResult, ...] | None``. ``check`` is called
      now and then during the search and raises to stop it: ``TimeLimit("context deadline exceeded")``.
      Pass the same claim objects for all nodes of one scheduling attempt: what depends on them alone is done once.
    * ``stamp(node_name) -> tuple[int, ...]``: equal stamps mean that slices and allocations have not changed in any way
      that could change the answer for that node (given equal claims, classes and node object).

``AllocationError``
    ``str(error)`` is upstream's text; ``error.only_this_node`` is true where other nodes may still work out
    (upstream's ErrFailedAllocationOnNode), false where the whole scheduling attempt fails.

``Trace()``
    pass one to have recorded what turned each pool, device and request away; see ``trace``.
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
