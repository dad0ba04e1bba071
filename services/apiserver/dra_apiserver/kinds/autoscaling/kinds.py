"""The kinds of autoscaling (upstream's `pkg/registry/autoscaling`).

No service acts on these kinds. They are served because clients use them:

* horizontalpodautoscalers.autoscaling: charts and `kubectl autoscale` create them; kube-controller-manager scales.
"""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy, StatusStrategy
from dra_apiserver.common.printing import printer
from dra_apiserver.kinds.autoscaling import autoscaler, columns, conversion, defaults

KINDS = (
    builtin(
        "autoscaling",
        "horizontalpodautoscalers",
        strategy=CheckedStrategy(autoscaler.check_autoscaler),
        status_strategy=StatusStrategy(autoscaler.check_autoscaler_status),
        default=defaults.autoscaler,
        conversions={"v1": (conversion.from_v1, conversion.to_v1)},
        printer=printer("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", columns.autoscaler),
    ),
)
