"""The kinds of certificates.k8s.io (upstream's `pkg/registry/certificates`).

No service acts on these kinds. They are served because clients use them:

* certificatesigningrequests.certificates.k8s.io: `kubectl certificate` approves them; kube-controller-manager signs.
* clustertrustbundles.certificates.k8s.io: the real kubelet projects them into pods.
* podcertificaterequests.certificates.k8s.io: the real kubelet creates them for projected volumes.
"""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.fieldlabels import unsupported_field_label
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Admission, Writes
from dra_apiserver.kinds.certificates import columns
from dra_apiserver.kinds.certificates.strategy import SigningRequestStrategy
from dra_apiserver.kinds.kubelets.restriction import NODE_RESTRICTION

_POD_REQUEST = "Name|PodName|ServiceAccountName|NodeName|SignerName|State"


def _keep_all(obj: JsonObject) -> None:
    pass


def _drop_separate_keys(obj: JsonObject) -> None:
    """Remove the public key and the proof of possession, which v1 only has inside the certificate signing request."""
    spec = obj.get("spec") or {}
    for field in ("pkixPublicKey", "proofOfPossession"):
        spec.pop(field, None)


KINDS = (
    builtin(
        "certificates.k8s.io",
        "certificatesigningrequests",
        strategy=SigningRequestStrategy(),
        status_strategy=SigningRequestStrategy(),
        subresource_strategies={"approval": SigningRequestStrategy()},
        admission=Admission(mutating=(NODE_RESTRICTION,)),
        printer=printer("Name|Age|SignerName|Requestor|RequestedDuration|Condition", columns.signing_request),
        field_label_error=unsupported_field_label,
        writes=Writes(reset_fields={"": [("f:status",)]}),
    ),
    builtin(
        "certificates.k8s.io",
        "clustertrustbundles",
        printer=printer("Name|SignerName", columns.trust_bundle),
        writes=Writes(allow_unconditional_update=False),
        feature_gate="ClusterTrustBundle",
    ),
    builtin(
        "certificates.k8s.io",
        "podcertificaterequests",
        printer=printer(f"{_POD_REQUEST}|UnverifiedUserAnnotations", columns.pod_certificate_request),
        older_printers={V1_35: printer(_POD_REQUEST, columns.pod_certificate_request_of_1_34)},
        conversions={"v1": (_keep_all, _drop_separate_keys)},
        writes=Writes(allow_unconditional_update=False),
        feature_gate="PodCertificateRequest",
    ),
)
