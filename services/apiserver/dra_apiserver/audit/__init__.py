"""The audit log: the users' requests, as selected by `--audit-policy-file`, in upstream's format (apiserver's
pkg/audit).
"""

from dra_apiserver.audit.auditor import Auditor
from dra_apiserver.audit.log import AuditLog, ensure_log_file
from dra_apiserver.audit.policy import Policy
from dra_apiserver.audit.policyfile import load_policy

__all__ = ["AuditLog", "Auditor", "Policy", "ensure_log_file", "load_policy"]
