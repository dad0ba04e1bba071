"""NVLink fabrics: the GPUs of one or several machines that share a set of NVLink switches.

NVML identifies a fabric by a cluster's UUID and a clique in it (``nvmlGpuFabricInfo_t``). GPUs behind the
switches of their own machine have no cluster: the UUID is zero. Machines in a rack such as GB200 NVL72 are
in one cluster and, unless the fabric manager divides it, in its default clique.
"""

import re
import uuid
from dataclasses import dataclass

from dra_node_agent.nvml.model import GpuModel

# The clique into which a rack's fabric manager puts all GPUs.
DEFAULT_CLIQUE = 32766

_NUMBERED = re.compile(r"(.*?)([0-9]*)")


@dataclass(frozen=True)
class FabricMember:
    """A GPU's place in its fabric.

    Args:
        cluster: zero if the fabric does not extend beyond the machine.
    """

    cluster: uuid.UUID
    clique: int


def fabric_member(model: GpuModel, node_name: str, gpus_of_node: int) -> FabricMember | None:
    """Return the place of a node's GPUs in their fabric, or None if the model has none.

    Nodes fill racks in the order of the numbers at the end of their names: with four GPUs each and 72 in a
    rack, ``gb-0`` to ``gb-17`` are in one rack, ``gb-18`` in the next. Nodes with different name prefixes
    are in different racks.

    Args:
        gpus_of_node: the node's number of GPUs of the model, at least one.
    """
    if model.fabric is None:
        return None
    if model.fabric.gpus is None:
        return FabricMember(uuid.UUID(int=0), 0)
    match = _NUMBERED.fullmatch(node_name)
    prefix, number = (match[1], int(match[2] or 0)) if match else (node_name, 0)
    rack = number // max(1, model.fabric.gpus // gpus_of_node)
    return FabricMember(
        uuid.uuid5(uuid.NAMESPACE_OID, "\0".join((prefix, model.name, "fabric", str(rack)))), DEFAULT_CLIQUE
    )
