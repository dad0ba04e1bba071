"""Conditions of scripts: `test`, `[` and `[[`."""

from collections.abc import Mapping

from dra_node_agent.runtime.shell.world import Process, Program


async def _test(process: Process) -> int:
    words = list(process.argv[1:])
    if process.argv[0] in ("[", "[["):
        if not words or words[-1] not in ("]", "]]"):
            process.err("[: missing `]'\n")
            return 2
        words.pop()
    return 0 if _holds(process, words) else 1


def _holds(process: Process, words: list[str]) -> bool:
    for joint, combine in (("-o", any), ("||", any), ("-a", all), ("&&", all)):
        if joint in words:
            at = words.index(joint)
            return combine((_holds(process, words[:at]), _holds(process, words[at + 1 :])))
    match words:
        case []:
            return False
        case ["!", *rest]:
            return not _holds(process, rest)
        case [value]:
            return bool(value)
        case ["-z", value]:
            return not value
        case ["-n", value]:
            return bool(value)
        case ["-e" | "-f" | "-s" | "-r" | "-c" | "-x", path]:
            return process.absolute(path) in process.files.content
        case ["-d", path]:
            return process.files.listing(process.absolute(path)) is not None
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, operator, right]:
            return _compare(left, operator, right)
    return False


def _compare(left: str, operator: str, right: str) -> bool:
    try:
        difference = int(left) - int(right)
    except ValueError:
        return False
    return {
        "-eq": difference == 0,
        "-ne": difference != 0,
        "-lt": difference < 0,
        "-le": difference <= 0,
        "-gt": difference > 0,
        "-ge": difference >= 0,
    }.get(operator, False)


#: By name.
CONDITIONS: Mapping[str, Program] = {"test": _test, "[": _test, "[[": _test}
