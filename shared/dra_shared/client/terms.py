"""Durations of leader election."""

from dataclasses import dataclass

# client-go's JitterFactor: intervals are extended at random by up to this factor.
_JITTER = 1.2


@dataclass(frozen=True)
class Terms:
    """Durations in seconds, with kube-controller-manager's defaults.

    Raises:
        ValueError: (on construction) a leader could not renew in time.
    """

    lease_duration: float = 15.0
    """The time until another replica may take over a lease that was not renewed."""
    renew_deadline: float = 10.0
    """The time that a leader tries to renew before it stops."""
    retry_period: float = 2.0
    """The interval between attempts to renew or to acquire."""

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= _JITTER * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.lease_duration < 1:
            raise ValueError("leaseDuration must be greater than zero")
