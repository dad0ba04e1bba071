"""The columns of every kind's table, and which function makes its cells.

A column is written ``Name``; ``Name#`` counts, ``Name?`` is yes or no, and ``*`` at the end means that only wide output
shows it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dra_apiserver.tables import core, others

Cells = Callable[[Mapping[str, Any], datetime], list[Any]]

_TEMPLATE = "Containers*|Images*|Selector*"
_SUBJECTS = "Name|Role|Age|Users*|Groups*|ServiceAccounts*"
_EVENT = "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*"

TABLES: Mapping[tuple[str, str], tuple[str, Cells]] = {
    ("", "Pod"): ("Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*", core.pod),
    ("", "PodTemplate"): ("Name|Containers|Images|Pod Labels", core.pod_template),
    ("", "ReplicationController"): (
        f"Name|Desired#|Current#|Ready#|Age|{_TEMPLATE}",
        core.replication_controller,
    ),
    ("", "Service"): ("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*", core.service),
    ("", "Endpoints"): ("Name|Endpoints|Age", core.endpoints),
    ("", "Node"): (
        "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
        core.node,
    ),
    ("", "Event"): (_EVENT, core.event),
    ("events.k8s.io", "Event"): (_EVENT, core.grouped_event),
    ("", "Namespace"): ("Name|Status|Age", core.namespace),
    ("", "Secret"): ("Name|Type|Data|Age", core.secret),
    ("", "ServiceAccount"): ("Name|Age", others.named),
    ("", "ConfigMap"): ("Name|Data|Age", core.config_map),
    ("", "PersistentVolume"): (
        "Name|Capacity|Access Modes|Reclaim Policy|"
        "Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
        core.volume,
    ),
    ("", "PersistentVolumeClaim"): (
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
        core.claim,
    ),
    ("", "ComponentStatus"): ("Name|Status|Message|Error", core.component_status),
    ("", "ResourceQuota"): ("Name|Request|Limit|Age", core.resource_quota),
    ("apps", "Deployment"): (f"Name|Ready|Up-to-date|Available|Age|{_TEMPLATE}", core.deployment),
    ("apps", "ReplicaSet"): (f"Name|Desired#|Current#|Ready#|Age|{_TEMPLATE}", core.replica_set),
    ("apps", "StatefulSet"): ("Name|Ready|Age|Containers*|Images*", core.stateful_set),
    ("apps", "DaemonSet"): (
        f"Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector|Age|{_TEMPLATE}",
        core.daemon_set,
    ),
    ("apps", "ControllerRevision"): ("Name|Controller|Revision|Age", core.controller_revision),
    ("batch", "Job"): (f"Name|Status|Completions|Duration|Age|{_TEMPLATE}", core.job),
    ("batch", "CronJob"): (
        f"Name|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|{_TEMPLATE}",
        core.cron_job,
    ),
    ("policy", "PodDisruptionBudget"): (
        "Name|Min Available|Max Unavailable|Allowed Disruptions#|Age",
        others.disruption_budget,
    ),
    ("networking.k8s.io", "Ingress"): ("Name|Class|Hosts|Address|Ports|Age", others.ingress),
    ("networking.k8s.io", "IngressClass"): ("Name|Controller|Parameters|Age", others.ingress_class),
    ("networking.k8s.io", "NetworkPolicy"): ("Name|Pod-Selector|Age", others.network_policy),
    ("networking.k8s.io", "ServiceCIDR"): ("Name|CIDRs|Age", others.service_cidr),
    ("networking.k8s.io", "IPAddress"): ("Name|ParentRef", others.ip_address),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        others.autoscaler,
    ),
    ("autoscaling", "Scale"): ("Name|Desired#|Available#|Age", others.scale),
    ("rbac.authorization.k8s.io", "RoleBinding"): (_SUBJECTS, others.role_binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (_SUBJECTS, others.role_binding),
    ("certificates.k8s.io", "CertificateSigningRequest"): (
        "Name|Age|SignerName|Requestor|RequestedDuration|Condition",
        others.signing_request,
    ),
    ("certificates.k8s.io", "ClusterTrustBundle"): ("Name|SignerName", others.trust_bundle),
    ("coordination.k8s.io", "Lease"): ("Name|Holder|Age", others.lease),
    ("coordination.k8s.io", "LeaseCandidate"): (
        "Name|LeaseName|BinaryVersion|EmulationVersion|Age",
        others.lease_candidate,
    ),
    ("storage.k8s.io", "StorageClass"): (
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        others.storage_class,
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): ("Name|DriverName|Age", others.attributes_class),
    ("storage.k8s.io", "VolumeAttachment"): ("Name|Attacher|PV|Node|Attached?|Age", others.attachment),
    ("storage.k8s.io", "CSINode"): ("Name|Drivers#|Age", others.csi_node),
    ("storage.k8s.io", "CSIDriver"): (
        "Name|AttachRequired?|PodInfoOnMount?|StorageCapacity?|TokenRequests|RequiresRepublish?|Modes|Age",
        others.csi_driver,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        "Name|Value#|Global-Default?|Age|PreemptionPolicy",
        others.priority_class,
    ),
    ("node.k8s.io", "RuntimeClass"): ("Name|Handler|Age", others.runtime_class),
    ("discovery.k8s.io", "EndpointSlice"): ("Name|AddressType|Ports|Endpoints|Age", others.endpoint_slice),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): ("Name|Webhooks#|Age", others.webhooks),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): (
        "Name|Webhooks#|Age",
        others.webhooks,
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): (
        "Name|Validations#|ParamKind|Age",
        others.admission_policy,
    ),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): (
        "Name|Mutations#|ParamKind|Age",
        others.admission_policy,
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): (
        "Name|PolicyName|ParamRef|Age",
        others.admission_binding,
    ),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): (
        "Name|PolicyName|ParamRef|Age",
        others.admission_binding,
    ),
    ("apiregistration.k8s.io", "APIService"): ("Name|Service|Available|Age", others.api_service),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): (
        "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
        others.flow_schema,
    ),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): (
        "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
        others.priority_level,
    ),
    ("internal.apiserver.k8s.io", "StorageVersion"): (
        "Name|CommonEncodingVersion|StorageVersions|Age",
        others.storage_version,
    ),
    ("storagemigration.k8s.io", "StorageVersionMigration"): ("Name|Resource", others.storage_migration),
    ("resource.k8s.io", "DeviceClass"): ("Name|Age", others.named),
    ("resource.k8s.io", "DeviceTaintRule"): ("Name|Key|Value|Effect|TimeAdded|Age", others.taint_rule),
    ("resource.k8s.io", "ResourceClaim"): ("Name|State|Age", others.device_claim),
    ("resource.k8s.io", "ResourceClaimTemplate"): ("Name|Age", others.named),
    ("resource.k8s.io", "ResourcePoolStatusRequest"): (
        "Name|Driver|Total|Available|Allocated|Unavailable|Errors|Pools#|Status|Completed",
        others.pool_status,
    ),
    ("resource.k8s.io", "ResourceSlice"): ("Name|Node|Driver|Pool|Age", others.device_slice),
    ("scheduling.k8s.io", "Workload"): ("Name|Age", others.named),
    ("scheduling.k8s.io", "PodGroup"): ("Name|Policy|Workload|Status|Age", others.pod_group),
}

DESCRIPTIONS: Mapping[str, str] = {
    "Name": "The object's name, unique among its kind within its namespace.",
    "Age": "How long ago the object was created.",
    "Created At": "When the object was created.",
    "State": "A summary of the current state (allocated, pending, reserved, etc.).",
    "Node": "The node that this is on or for.",
    "Driver": "The DRA driver that publishes the devices.",
    "Pool": "The pool that the devices belong to.",
    "Containers": "The names of the containers.",
    "Images": "The images of the containers.",
    "Selector": "The labels that select the pods.",
}
