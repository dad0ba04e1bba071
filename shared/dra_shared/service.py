"""Common parts of every service process: options, signals, logs and a health endpoint."""

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any, Self, cast

from dra_shared import log
from dra_shared.clientcertificate import client_certificate
from dra_shared.features import FeatureGates
from dra_shared.guard import Guard
from dra_shared.listening import ADDRESS_IN_USE, CANNOT_RUN, AddressInUse, listening_socket
from dra_shared.version import DEFAULT, VERSIONS, Version, describe_versions

if TYPE_CHECKING:
    from dra_shared.client.rest import Client
    from dra_shared.servingtls import ServingTLS

Check = Callable[[], bool]

# Probes and Prometheus use any host name for the server, and these paths reveal nothing about objects.
_OPEN = frozenset({"/healthz", "/livez", "/readyz", "/metrics"})
_MOST_BODY = 1 << 20
# The key of the client's certificate in a request's scope.
_CERTIFICATE = "dralab.certificate"
_HAS_ENDED = "dralab.has_ended"
_UPGRADES = frozenset({b"websocket", b"spdy/3.1"})


class Options(argparse.ArgumentParser):
    """Command-line options that can also be set by environment variables.

    ``--health-port`` of the service ``scheduler`` is also ``DRALAB_SCHEDULER_HEALTH_PORT``; the flag wins. ``--server``
    and ``--log-level`` are also ``DRALAB_SERVER`` and ``DRALAB_LOG_LEVEL`` for every service.
    """

    def __init__(self, service: str, description: str) -> None:
        super().__init__(prog=f"dralab-{service}", description=description)
        self.service = service
        self.option(
            "--log-level", default="info", choices=sorted(log.LEVELS), help="least severe line to log"
        )

    def option(self, flag: str, *, default: Any = None, **kwargs: Any) -> None:
        """Add an option. Its default is the value of the environment variable, if that is set."""
        name = flag.removeprefix("--").replace("-", "_").upper()
        for variable in (f"DRALAB_{self.service.replace('-', '_').upper()}_{name}", f"DRALAB_{name}"):
            if variable in os.environ:
                text = os.environ[variable]
                action = kwargs.get("action", "store")
                if action in ("store_true", argparse.BooleanOptionalAction):
                    default = text.lower() in ("1", "true", "yes")
                elif action == "append":
                    default = text.split(",")
                else:
                    default = text  # argparse applies ``type`` to a default that is a string
                break
        self.add_argument(flag, default=default, **kwargs)

    def guard_options(self) -> None:
        """Add the options of every server; see :func:`guard`."""
        self.option(
            "--allowed-hosts",
            default="",
            help="comma-separated host names by which clients reach this server; .NAME includes its "
            "subdomains, * is any name; see docs/security.md",
        )

    def tls_options(self, who: str) -> None:
        """Add the options of every server that can use HTTPS; see :func:`create_tls`."""
        self.option(
            "--tls-cert-file",
            default=None,
            type=Path,
            help="certificate to serve HTTPS with; read again when it changes",
        )
        self.option("--tls-private-key-file", default=None, type=Path, help="the certificate's key")
        self.option(
            "--client-ca-file",
            default=None,
            type=Path,
            help=f"file with the CA that signs the certificates of {who}",
        )

    def client_options(self) -> None:
        """Add the options of every client of the API server that serves its own health."""
        self.guard_options()
        self.tls_options(
            "clients; only members of the group system:masters are answered, except for health and metrics"
        )
        self.option(
            "--serving-token-file",
            default=None,
            type=Path,
            help="file with the token that requests to this service need, except for health and metrics",
        )
        self.option("--server", default="http://127.0.0.1:8080", help="the API server's URL")
        self.option(
            "--read-server",
            default="",
            help="URL of another API server on the same database, for lists and watches while it is reachable",
        )
        self.option("--token", default=None, help="bearer token for requests to the API server")
        self.option(
            "--kubeconfig",
            default=None,
            help="file with the API server's address and credentials, instead of --server and --token; credential "
            "plugins are refused",
        )
        self.option(
            "--health-address",
            default="127.0.0.1",
            help="IP address that serves /healthz, /readyz and /metrics",
        )
        self.option(
            "--health-port",
            default=0,
            type=int,
            help="port of /healthz, /readyz and /metrics; 0 picks a free port",
        )
        self.feature_options()

    def feature_options(self) -> None:
        """Add the options that select the version of Kubernetes and its features; see :func:`features`."""
        self.option(
            "--kubernetes-version",
            default=str(DEFAULT),
            choices=[str(version) for version in VERSIONS],
            help=f"the version of Kubernetes to follow: {describe_versions()}; see docs/versions.md",
        )
        self.option("--feature-gates", default="", help="feature gates: A=true,B=false")


def boolean(text: str) -> bool:
    """Parse true or false.

    Raises:
        ValueError: the text is neither.
    """
    if text not in ("true", "false"):
        raise ValueError(f"neither true nor false: {text}")
    return text == "true"


def features(options: argparse.Namespace) -> FeatureGates:
    """Return the feature gates of :meth:`Options.feature_options`, with their version of Kubernetes.

    Raises:
        ValueError: the version has no such gate, or does not allow that value.
    """
    return FeatureGates.parse(options.feature_gates, Version.parse(options.kubernetes_version))


def guard(options: argparse.Namespace, *names: str) -> Guard:
    """Return the guard of :meth:`Options.guard_options`, for a server that also has these names.

    Raises:
        OSError: the token's file can't be read.
    """
    hosts = [*options.allowed_hosts.split(","), *names]
    if not hasattr(options, "serving_token_file"):
        return Guard(hosts)
    file: Path | None = options.serving_token_file
    token = file.read_text().strip() if file is not None else ""
    return Guard(hosts, token, certified=options.client_ca_file is not None)


def connect(options: argparse.Namespace, user_agent: str) -> "Client":
    """Return the :class:`~dra_shared.client.rest.Client` of :meth:`Options.client_options`.

    Raises:
        KubeconfigError: the file cannot be used.
    """
    from dra_shared.client.rest import Client

    if not options.kubeconfig:
        return Client(
            options.server, user_agent=user_agent, token=options.token, read_url=options.read_server
        )
    from dra_shared.client import kubeconfig

    client = kubeconfig.load(Path(options.kubeconfig)).client(user_agent, options.read_server)
    return client.with_token(options.token) if options.token else client


def create_tls(options: argparse.Namespace) -> "ServingTLS | None":
    """Return the TLS of :meth:`Options.tls_options`; None for plain HTTP.

    Raises:
        ValueError: the options contradict each other.
        OSError: a file cannot be used.
    """
    from dra_shared.servingtls import ServingTLS

    certificate, key, client_ca = options.tls_cert_file, options.tls_private_key_file, options.client_ca_file
    if (certificate is None) != (key is None):
        raise ValueError("--tls-cert-file and --tls-private-key-file go together")
    if certificate is None:
        if client_ca is not None:
            raise ValueError("--client-ca-file needs --tls-cert-file")
        return None
    return ServingTLS(certificate, key, client_ca)


class CannotRun(Exception):
    """The service cannot run in its configuration, so a restart would not help. The message tells the user why."""


def run(service: str, level: str, main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run ``main`` until it returns, or SIGTERM or SIGINT cancels it. Return the exit code.

    1 is an error, :data:`~dra_shared.listening.ADDRESS_IN_USE` a port in use, :data:`CANNOT_RUN` a
    :class:`CannotRun`.

    With ``DRALAB_SUPERVISED`` set, the end of standard input also stops it. The supervisor holds the other
    end of that pipe, so no process outlives it.
    """
    log.configure(service, level)
    # The cluster's objects live long and have no cycles, so repeated full collections find nothing. The
    # middle generation stays small, because the process stops while it is collected.
    gc.set_threshold(25_000, 3, 3000)
    import uvloop

    logger = log.logger(service)
    try:
        uvloop.run(_until_stopped(main))
    except Exception as error:
        from dra_shared.client.kubeconfig import KubeconfigError
        from dra_shared.client.leader import LeadershipLost

        expected = OSError | KubeconfigError | CannotRun | LeadershipLost
        causes = _leaves(error)
        if all(isinstance(cause, expected) for cause in causes):
            logger.error("cannot go on", error="; ".join(str(cause) for cause in causes))
            if any(isinstance(cause, CannotRun) for cause in causes):
                return CANNOT_RUN
        else:
            logger.exception("stopped by an unexpected error")
        return ADDRESS_IN_USE if any(isinstance(cause, AddressInUse) for cause in causes) else 1
    logger.info("stopped")
    return 0


async def _until_stopped(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    if os.environ.get("DRALAB_SUPERVISED"):
        stdin = sys.stdin.fileno()

        def supervisor_gone() -> None:
            loop.remove_reader(stdin)
            task.cancel()

        loop.add_reader(stdin, supervisor_gone)
    with contextlib.suppress(asyncio.CancelledError):
        await main()


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for member in error.exceptions for leaf in _leaves(member)]


class HealthServer:
    """``/healthz``, ``/livez``, ``/readyz`` and ``/metrics`` over HTTP, and the routes that a service adds.

    A route's key is its path, after the method and a space if that isn't GET: ``POST /things``. ``checks``
    are named conditions for readiness; ``/readyz?verbose`` lists them. ``upgraded`` creates the protocol for
    a connection that a client upgrades to WebSocket or SPDY, with the arguments that uvicorn passes.
    ``guard`` protects the added routes from web pages; the protocol must check it by itself. With ``tls``,
    only HTTPS is served. A ``listener`` that listens already replaces address and port.
    """

    def __init__(
        self,
        address: str,
        port: int,
        checks: Mapping[str, Check],
        routes: Mapping[str, Callable[[Any], Awaitable[Any]]] | None = None,
        upgraded: Callable[..., asyncio.Protocol] | None = None,
        guard: Guard | None = None,
        tls: "ServingTLS | None" = None,
        listener: socket | None = None,
    ) -> None:
        self._listener = listener
        self._guard = guard or Guard()
        self._tls = tls
        self._upgraded = upgraded
        self._address, self._port = address, port
        self._checks = dict(checks)
        self._routes = dict(routes or {})
        self._server: Any = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._port

    async def __aenter__(self) -> Self:
        import prometheus_client
        import uvicorn
        from starlette.applications import Starlette
        from starlette.routing import Route

        from dra_shared.httpserver import IDLE_TIMEOUT

        # Go's client library has no *_created series.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types for it
        routes = [
            Route("/healthz", self._live),
            Route("/livez", self._live),
            Route("/readyz", self._ready),
            Route("/metrics", _metrics),
            *(
                Route(path, endpoint, methods=[method or "GET"])
                for (method, _, path), endpoint in (
                    (key.rpartition(" "), endpoint) for key, endpoint in self._routes.items()
                )
            ),
        ]
        config = uvicorn.Config(
            _guard_routes(Starlette(routes=routes), self._guard),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=cast(Any, _upgrading_protocol()),
            ws=cast(Any, self._upgraded or "none"),
            timeout_keep_alive=IDLE_TIMEOUT,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = None if self._tls is None else self._tls.context
        sock = self._listener or listening_socket(self._address, self._port)
        self._port = sock.getsockname()[1]
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None
        self._task = asyncio.create_task(self._serve(sock))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=3)
            self._task.cancel()

    async def _serve(self, sock: Any) -> None:
        # ``Server.serve`` would take over the process's signal handlers.
        await self._server._serve(sockets=[sock])

    async def _live(self, _: Any) -> Any:
        from starlette.responses import PlainTextResponse

        return PlainTextResponse("ok")

    async def _ready(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse

        results = {name: check() for name, check in self._checks.items()}
        ready = all(results.values())
        lines = [f"[{'+' if ok else '-'}]{name} {'ok' if ok else 'failed'}" for name, ok in results.items()]
        verbose = "verbose" in request.query_params or not ready
        text = "\n".join([*lines, f"readyz check {'passed' if ready else 'failed'}"]) if verbose else "ok"
        return PlainTextResponse(text, status_code=200 if ready else 500)


def _guard_routes(app: Any, guard: Guard) -> Any:
    from dra_shared.httpserver import report_end

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        reason = guard.refusal(scope["method"], dict(scope["headers"]), scope.get(_CERTIFICATE))
        if reason is None or scope["path"] in _OPEN:
            await app(scope, report_end(receive, scope[_HAS_ENDED]), send)
            return
        from starlette.responses import PlainTextResponse

        await PlainTextResponse(f"forbidden: {reason}", status_code=403)(scope, receive, send)

    return answer


def _upgrading_protocol() -> type[Any]:
    """Return uvicorn's protocol extended to upgrade to any protocol, not only WebSocket."""
    from dra_shared.httpserver import BoundedConnection

    class Upgrading(BoundedConnection):
        body_limit = _MOST_BODY

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it
            super().connection_made(transport)
            self._certificate = client_certificate(transport)

        def on_headers_complete(self) -> None:
            self.scope[_CERTIFICATE] = self._certificate  # type: ignore[literal-required]  # our own key
            self.scope[_HAS_ENDED] = self.has_ended  # type: ignore[literal-required]  # our own key
            super().on_headers_complete()

        def _should_upgrade(self) -> bool:
            return self._get_upgrade() in _UPGRADES and self.ws_protocol_class is not None

    return Upgrading


async def _metrics(_: Any) -> Any:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
    from starlette.responses import Response

    body = await asyncio.to_thread(generate_latest)
    return Response(body, media_type=CONTENT_TYPE_LATEST)
