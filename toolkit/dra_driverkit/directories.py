"""The directories of a node that a driver uses, like the options of kubeletplugin."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dra_driverkit.errors import make_directory

# The default directories of kubelets and container runtimes.
KUBELET_ROOT = Path("/var/lib/kubelet")
CDI_DIRECTORY = Path("/var/run/cdi")


@dataclass(frozen=True)
class Directories:
    """The directories of a driver. The kubelet sees them at the same paths.

    Args:
        plugin: the driver's own, with its socket and its checkpoint.
        registrar: where the kubelet looks for the sockets of plugins.
        cdi: where the container runtime looks for CDI files.
        durable: True if files are synced to the disk when they are written, so that they survive a power cut.
    """

    plugin: Path
    registrar: Path
    cdi: Path
    durable: bool = True

    @classmethod
    def below(
        cls,
        driver: str,
        kubelet_root: Path = KUBELET_ROOT,
        cdi: Path = CDI_DIRECTORY,
        *,
        durable: bool = True,
    ) -> Self:
        """Return the usual directories of ``driver`` below a kubelet's directory."""
        return cls(kubelet_root / "plugins" / driver, kubelet_root / "plugins_registry", cdi, durable)

    def make(self, driver: str) -> None:
        """Create the directories that do not exist.

        Raises:
            DriverConfigError: a directory cannot be created.
        """
        for path in (self.plugin, self.registrar, self.cdi):
            make_directory(f"driver {driver}", path)
