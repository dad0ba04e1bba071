"""The kubelet's DRA manager: drivers prepare claims before a pod starts, and unprepare them after it ends."""
