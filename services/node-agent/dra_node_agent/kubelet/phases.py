"""The phases of a pod (PodPhase in k8s.io/api/core/v1)."""

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = frozenset((SUCCEEDED, FAILED))
