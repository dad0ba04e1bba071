"""The files of a cgroup (version 2) as a container sees them."""

import math
from collections.abc import Mapping

from dra_node_agent.runtime.base import LinuxResources

_PERIOD = 100_000
#: The sizes of huge pages that x86-64 supports.
_PAGE_SIZES = ("1GB", "2MB")
_FOLDER = "/sys/fs/cgroup"


def cgroup_files(resources: LinuxResources) -> Mapping[str, str]:
    """Return the texts of the files by path."""
    quota = "max" if resources.cpu_quota is None else str(resources.cpu_quota)
    memory = "max" if resources.memory is None else str(resources.memory)
    return {
        f"{_FOLDER}/cpu.max": f"{quota} {_PERIOD}\n",
        f"{_FOLDER}/cpu.weight": f"{cpu_weight(resources.cpu_shares)}\n",
        f"{_FOLDER}/memory.max": f"{memory}\n",
        **{f"{_FOLDER}/hugetlb.{size}.max": f"{resources.huge_pages.get(size, 0)}\n" for size in _PAGE_SIZES},
        "/proc/self/oom_score_adj": f"{resources.oom_score_adj}\n",
    }


def cpu_weight(shares: int) -> int:
    """Convert CPU shares of version 1 to a weight (ConvertCPUSharesToCgroupV2Value of opencontainers/cgroups)."""
    if shares <= 2:
        return 1
    exponent = math.log2(min(shares, 262144))
    return math.ceil(10 ** ((exponent * exponent + 125 * exponent) / 612 - 7 / 34))
