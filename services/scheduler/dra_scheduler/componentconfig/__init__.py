"""KubeSchedulerConfiguration, the file of ``--config``: decoded, defaulted, checked (``pkg/scheduler/apis/config``)."""
