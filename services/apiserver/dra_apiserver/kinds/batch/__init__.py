"""batch: jobs and cron jobs. ``kinds`` has the records."""
