"""How long the terms of leader election are."""

from dataclasses import dataclass

# client-go's JitterFactor: tries are spread by so much.
_JITTER = 1.2


@dataclass(frozen=True)
class Terms:
    """In seconds, with kube-controller-manager's defaults.

    Raises (on construction):
        ValueError: a leader could not renew in time.
    """

    lease_duration: float = 15.0
    """How long a lease that isn't renewed keeps others out."""
    renew_deadline: float = 10.0
    """How long a leader tries to renew before it stops working."""
    retry_period: float = 2.0
    """How often it does, and how often others look."""

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= _JITTER * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.lease_duration < 1:
            raise ValueError("leaseDuration must be greater than zero")
