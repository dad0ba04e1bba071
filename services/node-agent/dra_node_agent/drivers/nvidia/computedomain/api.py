"""resource.nvidia.com/v1beta1 (api/nvidia.com/resource/v1beta1), and the names that the driver's parts share."""

from dra_shared.api.meta import Object, ObjectMeta, Struct
from dra_shared.api.resources import Resource
from msgspec import field

GROUP, VERSION = "resource.nvidia.com", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

READY, NOT_READY = "Ready", "NotReady"
#: A claim's allocation mode: every channel of the node, in place of one.
ALL_CHANNELS = "All"
ONE_CHANNEL = "Single"

#: On all that belongs to a domain, and on the nodes that are in it; its value is the domain's UID.
LABEL = "resource.nvidia.com/computeDomain"
#: On the daemon's pod: the clique that its node is in, empty where the node has no fabric.
CLIQUE_LABEL = f"{LABEL}.cliqueID"
#: On a template: whose it is.
TARGET_LABEL = "resource.nvidia.com/computeDomainTarget"
DAEMON_TARGET, WORKLOAD_TARGET = "Daemon", "Workload"
FINALIZER = LABEL

DAEMON_CLASS = "compute-domain-daemon.nvidia.com"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"

#: Where the driver's own objects are, unless its pod says otherwise: the chart's namespace.
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
    """A node of a domain; ``index`` is its place in its clique, -1 where it has no fabric."""

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
    """The daemons of a domain that are in one clique; its name is ``DOMAIN-UID.CLIQUE``."""

    daemons: tuple[DaemonInfo, ...] = ()


COMPUTE_DOMAINS = Resource(GROUP, VERSION, "computedomains", "ComputeDomain", ComputeDomain)
CLIQUES = Resource(GROUP, VERSION, "computedomaincliques", "ComputeDomainClique", ComputeDomainClique)


def clique_name(domain_uid: str, clique: str) -> str:
    """The name of a domain's ComputeDomainClique."""
    return f"{domain_uid}.{clique}"


def owned_name(domain_uid: str) -> str:
    """The name of a domain's DaemonSet and of that DaemonSet's template."""
    return f"computedomain-daemon-{domain_uid}"


def labelled(metadata: ObjectMeta) -> str:
    """The UID of the domain that an object belongs to; empty if to none."""
    return metadata.labels.get(LABEL, "")
