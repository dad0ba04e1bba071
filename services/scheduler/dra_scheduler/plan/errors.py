"""Errors for questions that the planner cannot answer."""


class PlanError(ValueError):
    """The question is invalid in this world. The message says why.

    ``left_out`` are workloads of unknown kinds, if they are the reason.
    """

    def __init__(self, message: str, left_out: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.left_out = left_out
