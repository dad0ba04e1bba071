"""``dralab exec``."""

import argparse
import sys

from dra_shared.errors import UserError

from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("pod", help="the pod's name, pod/NAME, or deploy/NAME for one of its pods")
    parser.add_argument("--container", "-c", help="the container, if the pod has several")
    parser.add_argument("--stdin", "-i", action="store_true", help="pass standard input to the command")
    parser.add_argument("--tty", "-t", action="store_true", help="give the command a terminal")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> int:
    """Run the command that follows ``--`` in a container, and return its exit code.

    Raises:
        UserError: there is no command.
    """
    from dra_kube.owned import container_of, pod_of
    from dra_kube.stream import execute

    if not chosen.rest:
        raise UserError("say what to run: dralab exec POD -- COMMAND", 2)
    with chosen_cluster(chosen).reader() as reader:
        namespace = chosen.namespace or "default"
        pod = pod_of(reader, namespace, chosen.pod)
        params = [("command", word) for word in chosen.rest]
        params.append(("container", chosen.container or container_of(reader, namespace, pod, _note)))
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        return execute(reader, path, params, stdin=chosen.stdin, tty=chosen.tty)


def _note(line: str) -> None:
    print(line, file=sys.stderr)
