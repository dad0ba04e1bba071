"""Creates Jobs on a schedule.

Mirrors pkg/controller/cronjob.
"""

from dra_controller.cronjob.controller import CronJobController

__all__ = ["CronJobController"]
