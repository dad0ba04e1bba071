"""The kinds of networking.k8s.io and discovery.k8s.io, and services (upstream's `pkg/registry/networking`).

No service acts on these kinds. They are served because clients use them:

* ingresses.networking.k8s.io: charts create them; an ingress controller in a pod acts on them.
* networkpolicies.networking.k8s.io: charts create them. There is no pod network that could enforce them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dra_shared.names import dns_label_name

from dra_apiserver.api import Routes
from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.checked import CheckedStrategy, StatusStrategy
from dra_apiserver.common.fieldlabels import unsupported_field_label
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Admission, Deletion, Rewind, Validation, Writes
from dra_apiserver.kinds.connect import proxy
from dra_apiserver.kinds.networking import admission, columns, defaults, endpointslices, ingress, warnings
from dra_apiserver.kinds.networking.servicestrategy import ServiceStrategy
from dra_apiserver.storage import Resource

# Not rewound: these objects contain the API server's address, whose port may have changed since.
_OWN_ENDPOINTS = Rewind(stays=lambda key: key == "default/kubernetes")

KINDS = (
    builtin(
        "",
        "endpoints",
        default=defaults.endpoints,
        printer=printer("Name|Endpoints|Age", columns.endpoints),
        warnings={"": warnings.endpoints},
        writes=Writes(allow_create_on_update=True),
        rewind=_OWN_ENDPOINTS,
    ),
    builtin(
        "",
        "services",
        strategy=ServiceStrategy(),
        writes=Writes(exclusive=True, allow_create_on_update=True),
        status_strategy=ServiceStrategy(),
        default=defaults.service,
        printer=printer("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*", columns.service),
        warnings={"status": warnings.load_balancer},
        validation=Validation(name_rule=dns_label_name),
        deletion=Deletion(return_deleted_object=True),
        field_label_error=unsupported_field_label,
    ),
    builtin(
        "discovery.k8s.io",
        "endpointslices",
        strategy=endpointslices.EndpointSliceStrategy(),
        default=defaults.endpoint_slice,
        printer=printer("Name|AddressType|Ports|Endpoints|Age", columns.endpoint_slice),
        warnings={"": warnings.endpoint_slice},
        writes=Writes(counts_generation=True),
        rewind=_OWN_ENDPOINTS,
    ),
    builtin(
        "networking.k8s.io",
        "ingressclasses",
        default=defaults.ingress_class,
        printer=printer("Name|Controller|Parameters|Age", columns.ingress_class),
        writes=Writes(counts_generation=True),
    ),
    builtin(
        "networking.k8s.io",
        "ingresses",
        strategy=CheckedStrategy(ingress.check_ingress),
        status_strategy=StatusStrategy(ingress.check_ingress_status),
        printer=printer("Name|Class|Hosts|Address|Ports|Age", columns.ingress),
        warnings={"": warnings.ingress, "status": warnings.load_balancer},
        admission=Admission(mutating=(("DefaultIngressClass", admission.default_ingress_class),)),
        writes=Writes(counts_generation=True, reset_fields={"status": [("f:spec",)]}),
    ),
    builtin("networking.k8s.io", "ipaddresses", printer=printer("Name|ParentRef", columns.ip_address)),
    builtin(
        "networking.k8s.io",
        "networkpolicies",
        strategy=CheckedStrategy(ingress.check_network_policy),
        default=defaults.network_policy,
        printer=printer("Name|Pod-Selector|Age", columns.network_policy),
        warnings={"": warnings.network_policy},
        writes=Writes(counts_generation=True),
    ),
    builtin(
        "networking.k8s.io",
        "servicecidrs",
        printer=printer("Name|CIDRs|Age", columns.service_cidr),
        writes=Writes(reset_fields={"status": STATUS_ALONE}),
    ),
)

ROUTES: Mapping[Resource, Routes] = {
    ("", "services"): Routes(subresources={"proxy": proxy.ROUTES}),
}
