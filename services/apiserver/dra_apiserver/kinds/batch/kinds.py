"""The kinds of batch (upstream's `pkg/registry/batch`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import StatusStrategy
from dra_apiserver.common.fieldlabels import unsupported_kind_label
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Deletion, Writes
from dra_apiserver.kinds.batch import columns, defaults, jobstatus, warnings
from dra_apiserver.kinds.batch.strategy import CronJobStrategy, JobStrategy

_PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)

KINDS = (
    builtin(
        "batch",
        "cronjobs",
        strategy=CronJobStrategy(),
        default=defaults.cron_job,
        printer=printer(
            "Name|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|Containers*|Images*|Selector*",
            columns.cron_job,
        ),
        warnings={"": warnings.cron_job},
        writes=Writes(counts_generation=True),
    ),
    builtin(
        "batch",
        "jobs",
        deletion=Deletion(orphans_warning=_PRESERVED, orphans_dependents=True),
        strategy=JobStrategy(),
        status_strategy=StatusStrategy(jobstatus.check_job_status),
        default=defaults.job,
        printer=printer("Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*", columns.job),
        warnings={"": warnings.job},
        writes=Writes(counts_generation=True),
        field_label_error=unsupported_kind_label,
    ),
)
