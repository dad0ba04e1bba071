"""resource.nvidia.com/v1beta1 (api/nvidia.com/resource/v1beta1), and the names that the driver's parts share."""

from dra_shared.api.meta import Object, ObjectMeta, Struct
from dra_shared.api.resources import Resource
from msgspec import field

GROUP, VERSION = "resource.nvidia.com", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

READY, NOT_READY = "Ready", "NotReady"
# A claim's allocation mode: all channels of the node instead of one.
ALL_CHANNELS = "All"
ONE_CHANNEL = "Single"

# On everything that belongs to a domain, and on the nodes in it. The value is the domain's UID.
LABEL = "resource.nvidia.com/computeDomain"
# On the daemon's pod: the clique of its node. Empty if the node has no fabric.
CLIQUE_LABEL = f"{LABEL}.cliqueID"
# On a template: its purpose, daemon or workload.
TARGET_LABEL = "resource.nvidia.com/computeDomainTarget"
DAEMON_TARGET, WORKLOAD_TARGET = "Daemon", "Workload"
FINALIZER = LABEL

DAEMON_CLASS = "compute-domain-daemon.nvidia.com"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"

# The namespace of the driver's own objects, unless its pod sets another: that of the chart.
NAMESPACE = "dra-driver-nvidia-gpu"
SERVICE_ACCOUNT = "compute-domain-daemon-service-account"


class TemplateName(Struct):
    name: str = ""


class ChannelSpec(Struct):
    resource_claim_template: TemplateName = field(default_factory=TemplateName)
    allocation_mode: str = ""


class ComputeDomainSpec(Struct):
    num_nodes: int = 0
    channel: ChannelSpec | None = None


class ComputeDomainNode(Struct, omit_defaults=False):
    """A node of a domain. ``index`` is its position in its clique, -1 without a fabric."""

    name: str = ""
    ip_address: str = field(default="", name="ipAddress")
    clique_id: str = field(default="", name="cliqueID")
    index: int = 0
    status: str = NOT_READY


class ComputeDomainStatus(Struct):
    status: str = ""
    nodes: tuple[ComputeDomainNode, ...] = ()


class ComputeDomain(Object):
    spec: ComputeDomainSpec = field(default_factory=ComputeDomainSpec)
    status: ComputeDomainStatus = field(default_factory=ComputeDomainStatus)


class DaemonInfo(Struct, omit_defaults=False):
    """A node's daemon in a clique."""

    node_name: str = ""
    ip_address: str = field(default="", name="ipAddress")
    clique_id: str = field(default="", name="cliqueID")
    index: int = 0
    status: str = NOT_READY


class ComputeDomainClique(Object):
    """The daemons of a domain that are in one clique. Its name is ``DOMAIN-UID.CLIQUE``."""

    daemons: tuple[DaemonInfo, ...] = ()


COMPUTE_DOMAINS = Resource(GROUP, VERSION, "computedomains", "ComputeDomain", ComputeDomain)
CLIQUES = Resource(GROUP, VERSION, "computedomaincliques", "ComputeDomainClique", ComputeDomainClique)


def clique_name(domain_uid: str, clique: str) -> str:
    """Return the name of a domain's ComputeDomainClique."""
    return f"{domain_uid}.{clique}"


def owned_name(domain_uid: str) -> str:
    """Return the name of a domain's DaemonSet and of its template."""
    return f"computedomain-daemon-{domain_uid}"


def domain_uid_of(metadata: ObjectMeta) -> str:
    """Return the UID of the domain that an object belongs to, or an empty string."""
    return metadata.labels.get(LABEL, "")
