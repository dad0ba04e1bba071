"""The kubelet's DRA manager: claims are prepared by their drivers before a pod starts, and unprepared after it ends."""
