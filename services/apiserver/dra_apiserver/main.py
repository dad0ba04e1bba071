"""The `dralab-apiserver` command."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from dra_shared.features import FeatureGates
from dra_shared.service import Options, run

from dra_apiserver.config import Config
from dra_apiserver.registry import Registry, RuntimeConfigError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Seconds in a duration such as 90s, 5m or 1h30m.

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", text):
        raise ValueError(f"not a duration: {text}")
    return sum(
        float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    )


def options() -> Options:
    """The command's options."""
    made = Options("apiserver", "Serve the Kubernetes API.")
    made.option("--listen", default="127.0.0.1", help="address to listen on")
    made.option("--port", default=8080, type=int, help="port to listen on; 0 takes any free one")
    made.option("--data", default=Path(".dralab"), type=Path, help="directory of the cluster's state")
    made.option(
        "--relaxed",
        default=False,
        action="store_true",
        help="answer writes before the disk has them; a machine's crash may lose the last ones",
    )
    made.option(
        "--history", default=300.0, type=duration, help="how long revisions can be read again (5m, 1h)"
    )
    made.option(
        "--runtime-config", default="", help="versions to serve: api/all=true,resource.k8s.io/v1beta1=true"
    )
    made.option("--feature-gates", default="", help="A=true,B=false")
    made.option(
        "--authorization-mode",
        default="AlwaysAllow",
        choices=("AlwaysAllow", "RBAC"),
        help="RBAC: service accounts and who is impersonated may do what roles and bindings say",
    )
    made.option("--access-log", default=False, action="store_true", help="log every request")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = options()
    chosen = parser.parse_args(arguments)
    try:
        features = FeatureGates.parse(chosen.feature_gates)
        Registry.configured(chosen.runtime_config)
    except (ValueError, RuntimeConfigError) as error:
        parser.error(str(error))
    config = Config(
        listen=chosen.listen,
        port=chosen.port,
        data=chosen.data,
        relaxed=chosen.relaxed,
        history=chosen.history,
        runtime_config=chosen.runtime_config,
        features=features,
        access_log=chosen.access_log,
        authorization_mode=chosen.authorization_mode,
    )

    async def serve() -> None:
        from dra_apiserver.server import ApiServer

        async with ApiServer(config):
            await asyncio.Event().wait()

    sys.exit(run("apiserver", chosen.log_level, serve))


if __name__ == "__main__":
    main()
