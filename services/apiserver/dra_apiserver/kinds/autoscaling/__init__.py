"""autoscaling: horizontal pod autoscalers. ``kinds`` has the records."""
