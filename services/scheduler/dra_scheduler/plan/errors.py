"""Questions that the planner does not answer."""


class PlanError(ValueError):
    """The question makes no sense in this world; the message says why.

    ``left_out`` are workloads of unknown kinds, if these are why.
    """

    def __init__(self, message: str, left_out: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.left_out = left_out
