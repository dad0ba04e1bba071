"""Names that all parts of the fault code share: paths, services, verbs."""

from collections.abc import Mapping

#: The path at which services accept requests for faults.
PATH = "/faults"
API_SERVER = "apiserver"
#: The services whose processes a fault can stop or kill.
SERVICES = (API_SERVER, "scheduler", "controller", "node-agent")
#: The prefix of each service's User-Agent. Faults of the network to a service select its requests by this
#: prefix.
AGENTS: Mapping[str, str] = {name: f"dralab-{name}" for name in SERVICES if name != API_SERVER}
#: The User-Agent of clients that begin and judge faults. Their own requests are exempt.
OBSERVER = "dralab-fault"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
#: The longest fault, in seconds.
LONGEST = 3600.0
