"""The endpoints /livez, /readyz and /healthz, with their checks."""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[], str | None]
"""Returns the problem, or None if there is none."""


class Health:
    """Named checks. Liveness omits checks that only say whether the server is ready for requests."""

    def __init__(self) -> None:
        self._checks: dict[str, tuple[Check, bool]] = {}

    def add(self, name: str, check: Check, live: bool = True) -> None:
        """Add a check. With `live` False, it only counts for readiness."""
        self._checks[name] = (check, live)

    def answer(self, endpoint: str, query: dict[str, str], excluded: list[str], only: str) -> tuple[int, str]:
        """Return the code and text for /livez, /readyz or /healthz, or for one check below it."""
        chosen = {name: check for name, (check, live) in self._checks.items() if live or endpoint == "readyz"}
        if only:
            if only not in chosen:
                return 404, "404 page not found\n"
            problem = chosen[only]()
            return (200, "ok") if problem is None else (500, f"internal server error: {problem}\n")
        lines = []
        failed = False
        for name, check in chosen.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = check()
            if problem is None:
                lines.append(f"[+]{name} ok")
            else:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
        unknown = sorted({name for name in excluded if name not in chosen})
        if unknown:
            quoted = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            return 500, "\n".join([*lines, f"{endpoint} check failed", ""])
        if "verbose" not in query:
            return 200, "ok"
        return 200, "\n".join([*lines, f"{endpoint} check passed", ""])
