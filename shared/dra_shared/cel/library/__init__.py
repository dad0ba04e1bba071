"""What the functions of the environment do, by the id of their overload."""

from collections.abc import Callable
from typing import Any

#: Takes an overload's arguments (the receiver first); raises EvaluationError.
Implementation = Callable[..., Any]
