"""KubeSchedulerConfiguration, the file of ``--config`` (``pkg/scheduler/apis/config``)."""
