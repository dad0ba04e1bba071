"""Makes Jobs when their time has come."""

from dra_controller.cronjob.controller import CronJobController

__all__ = ["CronJobController"]
