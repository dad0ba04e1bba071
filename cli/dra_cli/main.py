"""The ``dralab`` command."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from dra_cli.errors import CommandError

T = TypeVar("T")

app = typer.Typer(
    name="dralab",
    help="A Kubernetes DRA control plane in a box.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)

Data = Annotated[
    Path,
    typer.Option(
        "--data", envvar="DRALAB_DATA", help="The cluster's directory: its state, logs, kubeconfig."
    ),
]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace (default: default).")]
Files = Annotated[
    list[str], typer.Option("--filename", "-f", help="Manifest: a file, a folder, or - for standard input.")
]
Nodes = Annotated[int, typer.Option(min=0, max=500, help="How many nodes to simulate.")]
Gpus = Annotated[
    str, typer.Option(help="GPUs of each node: COUNTxMODEL[:LAYOUT],… or host; see docs/gpu-models.md.")
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="The API server's port on loopback; 0: any free one.")
]
Drivers = Annotated[
    list[str] | None,
    typer.Option(
        "--driver", help="Driver of each node: a name, or a profile file, or none. May be repeated."
    ),
]
DEFAULT_DATA = Path(".dralab")
DEFAULT_GPUS = "8xA100-SXM4-40GB"


@app.command()
def up(
    nodes: Nodes = 2,
    gpus: Gpus = DEFAULT_GPUS,
    port: Port = 8080,
    data: Data = DEFAULT_DATA,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once everything is ready.")] = False,
    driver: Drivers = None,
    runtime: Annotated[str, typer.Option(help="Container runtime: fake or docker.")] = "fake",
    allow_host_access: Annotated[
        bool,
        typer.Option(
            "--allow-host-access",
            help="With docker: pods may mount the host's files, be privileged, use its network.",
        ),
    ] = False,
    relaxed: Annotated[bool, typer.Option(help="Do not wait for the disk at each write.")] = False,
    feature_gates: Annotated[str, typer.Option(help="Feature gates: A=true,B=false.")] = "",
    runtime_config: Annotated[str, typer.Option(help="API versions to serve.")] = "api/all=true",
    authorization_mode: Annotated[
        str, typer.Option(help="AlwaysAllow, or RBAC: roles tell what service accounts may do.")
    ] = "AlwaysAllow",
    anonymous_auth: Annotated[
        bool | None,
        typer.Option(
            "--anonymous-auth/--no-anonymous-auth",
            help="Whether clients need no token (default: with docker they need one).",
            show_default=False,
        ),
    ] = None,
    nvidia_gates: Annotated[str, typer.Option(help="Feature gates of the NVIDIA driver.")] = "",
    gpu_models: Annotated[
        list[str] | None, typer.Option(help="Folder with GPU models of your own. May be repeated.")
    ] = None,
    images: Annotated[
        list[str] | None, typer.Option(help="File that says what images' programs do. May be repeated.")
    ] = None,
    consumable_shares: Annotated[str, typer.Option(help="The NVIDIA driver's option of that name.")] = "",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave out scheduler, controller or node-agent. May be repeated."),
    ] = None,
) -> None:
    """Start a cluster and run it until Ctrl-C (or, detached, until `dralab down`)."""
    from dra_cli import run
    from dra_cli.services import ClusterOptions

    options = ClusterOptions(
        nodes=nodes,
        gpus=gpus,
        port=port,
        drivers=tuple(driver or ()),
        runtime=runtime,
        allow_host_access=allow_host_access,
        relaxed=relaxed,
        feature_gates=feature_gates,
        runtime_config=runtime_config,
        authorization_mode=authorization_mode,
        anonymous_auth=anonymous_auth,
        driver_options={"nvidia-gates": nvidia_gates, "consumable-shares": consumable_shares},
        gpu_models=tuple(gpu_models or ()),
        images=tuple(images or ()),
        log_level=log_level,
        without=tuple(without or ()),
    )
    if detach:
        run.detach(data, sys.argv[1:])
    else:
        _run(run.up(data, options))


@app.command()
def down(data: Data = DEFAULT_DATA) -> None:
    """Stop a cluster; its state stays for the next `up`."""
    from dra_cli import run

    run.down(data)


@app.command()
def status(data: Data = DEFAULT_DATA) -> None:
    """Show a cluster's processes and whether each is ready."""
    from dra_cli import run

    _run(run.status(data))


@app.command()
def kubeconfig(data: Data = DEFAULT_DATA) -> None:
    """Print the path of a cluster's kubeconfig."""
    from dra_cli.cluster import Cluster

    cluster = Cluster(data)
    if not cluster.kubeconfig.exists():
        raise CommandError(f"no cluster was ever started in {cluster.data}")
    print(cluster.kubeconfig)


@app.command()
def apply(filename: Files, namespace: Namespace = None, data: Data = DEFAULT_DATA) -> None:
    """Create or change objects as manifests say."""
    from dra_cli import manifests, objects

    async def work(client: Any, discovery: Any) -> None:
        for where, outcome in await objects.apply(client, discovery, loaded, namespace):
            print(f"{where} {outcome}")

    loaded = manifests.load(filename)
    _with_server(data, work)


@app.command()
def get(
    kind: Annotated[str, typer.Argument(help="Kind, plural or short name; KIND/NAME too.")],
    name: Annotated[str | None, typer.Argument(help="Only the one of this name.")] = None,
    namespace: Namespace = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Objects of all namespaces.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="wide, yaml, json or name.")] = "",
    selector: Annotated[str | None, typer.Option("--selector", "-l", help="Label selector.")] = None,
    field_selector: Annotated[str | None, typer.Option(help="Field selector.")] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show objects."""
    from dra_cli import objects

    if output not in ("", "wide", "yaml", "json", "name"):
        raise CommandError(f"unknown output {output!r}: choose wide, yaml, json or name", 2)
    kind, _, inline = kind.partition("/")

    async def work(client: Any, discovery: Any) -> None:
        resource = discovery.named(kind)
        space = (namespace or "default") if resource.namespaced and not all_namespaces else None
        query = objects.Query(resource, name or inline or None, space, output, selector, field_selector)
        print(await objects.get(client, query, all_namespaces))

    _with_server(data, work)


@app.command()
def delete(
    kind: Annotated[str | None, typer.Argument(help="Kind, plural or short name; KIND/NAME too.")] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Which ones.")] = None,
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="Delete what these manifests name.")
    ] = None,
    namespace: Namespace = None,
    wait: Annotated[bool, typer.Option(help="Wait until the objects are gone.")] = True,
    timeout: Annotated[float, typer.Option(help="How long to wait, in seconds.")] = 60.0,
    ignore_not_found: Annotated[bool, typer.Option(help="Do not mind what is not there.")] = False,
    grace_period: Annotated[int | None, typer.Option(help="Seconds that pods get to stop.")] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Delete objects, by name or as manifests name them."""
    from dra_cli import manifests, objects

    loaded = manifests.load(filename) if filename else []
    if bool(loaded) == bool(kind):
        raise CommandError("say what to delete: either KIND NAME… or --filename", 2)

    async def work(client: Any, discovery: Any) -> None:
        targets = [objects.target(discovery, obj, namespace) for obj in reversed(loaded)]
        if kind:
            plain, _, inline = kind.partition("/")
            resource = discovery.named(plain)
            space = (namespace or "default") if resource.namespaced else None
            wanted = [inline] if inline else list(names or ())
            if not wanted:
                raise CommandError("say which to delete: KIND NAME…", 2)
            targets = [objects.Target(resource, space, name) for name in wanted]
        await objects.delete(
            client,
            targets,
            wait=wait,
            timeout=timeout,
            missing_ok=ignore_not_found,
            grace_period=grace_period,
            report=lambda where: print(f"{where} deleted"),
        )

    _with_server(data, work)


@app.command()
def logs(
    pod: Annotated[str, typer.Argument(help="The pod's name.")],
    container: Annotated[
        str | None, typer.Option("--container", "-c", help="Which one, where the pod has several.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the log grows.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the container before its last restart.")
    ] = False,
    tail: Annotated[int | None, typer.Option(help="Only the last lines.")] = None,
    namespace: Namespace = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Print a container's log."""
    from dra_cli import objects

    params = {"follow": "true"} if follow else {}
    if previous:
        params["previous"] = "true"
    if tail is not None:
        params["tailLines"] = str(tail)

    async def work(client: Any, _: Any) -> None:
        await objects.logs(client, namespace or "default", pod.removeprefix("pod/"), container, params)

    _with_server(data, work, discover=False)


@app.command()
def explain(
    target: Annotated[str, typer.Argument(help="pod/NAME or claim/NAME.")],
    namespace: Namespace = None,
    nodes: Annotated[int, typer.Option(help="How many nodes to tell of.")] = 20,
    output: Annotated[str, typer.Option("--output", "-o", help="json instead of a tree.")] = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Say why a pod or claim is where it is, or nowhere: the allocator's own trace."""
    from dra_cli import insight

    _run(insight.explain(data, target, namespace or "default", nodes, output))


@app.command()
def free(
    output: Annotated[str, typer.Option("--output", "-o", help="json instead of tables.")] = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Show which devices could be had now, by class and shape, and what is used of pools and counters."""
    from dra_cli import insight

    _run(insight.free(data, output))


# Without a --help of its own, so that the benchmark's is shown: "dralab bench scheduling --help".
@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="scheduling, apiserver, allocator, nodes, cluster.")],
) -> None:
    """Run a benchmark and print its numbers; its own options follow its name."""
    from dra_cli import checkout

    if name in ("--help", "-h"):
        print(context.get_help())
        return
    checkout.run_benchmark(name, context.args)


@app.command()
def demo(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", envvar="DRALAB_DATA", help="Keep the cluster's directory here; else it goes at the end."
        ),
    ] = None,
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="Manifests to run instead of the quickstart.")
    ] = None,
    port: Port = 0,
    step: Annotated[
        bool, typer.Option("--step", help="Stop after each phase until Enter is pressed, on a terminal.")
    ] = False,
) -> None:
    """Start a cluster, run the quickstart through it, show each phase, and clean everything up."""
    from dra_cli.demo.story import tell

    _run(tell(data, filename, port, step))


@app.command()
def conformance(
    subject: Annotated[str, typer.Argument(help="alloc, cel or validate.")],
    file: Annotated[Path, typer.Argument(help='Lines of {"in": …, "out": …}, perhaps gzipped; - for stdin.')],
    answers: Annotated[
        bool, typer.Option("--answers", help="Print our answer to each case instead.")
    ] = False,
) -> None:
    """Compare our answers with recorded ones of the real Kubernetes code."""
    import orjson

    from dra_cli import conformance as conformances

    if answers:
        for answer in conformances.answers(subject, file):
            print(orjson.dumps(answer).decode())
        return
    summary, agree = conformances.compare(subject, file)
    print(orjson.dumps(summary).decode())
    if not agree:
        raise typer.Exit(1)


def _with_server(data: Path, work: Callable[[Any, Any], Awaitable[None]], *, discover: bool = True) -> None:
    """Run ``work`` with a client of the running cluster and, unless ``discover`` is false, its discovery."""
    from dra_cli.cluster import Cluster
    from dra_cli.discovery import Discovery

    async def with_client() -> None:
        async with Cluster(data).client("dralab") as client:
            await work(client, await Discovery.read(client) if discover else None)

    _run(with_client())


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def main() -> None:
    """The command's entry: every error is one line on standard error and an exit code."""
    try:
        _main()
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)


def _main() -> None:
    import httpx
    from dra_shared.client.errors import ApiError
    from typer.exceptions import TyperException

    try:
        sys.exit(app(prog_name=app.info.name, standalone_mode=False))
    except TyperException as error:
        # Without arguments the help was shown, and there is nothing more to say.
        if not str(error):
            sys.exit(error.exit_code)
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else app.info.name
        _fail(f"{error.format_message().rstrip('.')}; see {command} --help", error.exit_code)
    except CommandError as error:
        _fail(str(error), error.code)
    except ApiError as error:
        _fail(f"Error from server ({error.reason or error.code}): {error}", 1)
    except httpx.HTTPError as error:
        _fail(f"cannot reach the API server: {error}", 1)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        _fail(str(error), 1)


def _fail(message: str, code: int) -> None:
    print(f"dralab: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
