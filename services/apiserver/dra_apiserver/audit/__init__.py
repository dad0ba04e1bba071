"""The audit log: who did what, as `--audit-policy-file` wants it, in upstream's format (apiserver's pkg/audit)."""

from dra_apiserver.audit.auditor import Auditor
from dra_apiserver.audit.log import AuditLog, ensure_log_file
from dra_apiserver.audit.policy import Policy
from dra_apiserver.audit.policyfile import load_policy

__all__ = ["AuditLog", "Auditor", "Policy", "ensure_log_file", "load_policy"]
