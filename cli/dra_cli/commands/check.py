"""``dralab check``."""

import argparse
import sys
from typing import TYPE_CHECKING

from dra_shared.errors import UserError

from dra_cli.access import chosen_cluster
from dra_cli.commandline import Parser
from dra_cli.targets import recursive_option

if TYPE_CHECKING:
    from dra_worlds.check.reading import Named


def options(parser: Parser) -> None:
    """Add the options."""
    from dra_cli.access import cluster_options

    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="manifests: files, folders, or - for standard input"
    )
    recursive_option(parser)
    parser.add_argument("--against", required=True, metavar="VERSION", help="the other version, such as 1.37")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="a kubeconfig, or a dump: a file, folder, zip or tar of YAML or JSON",
    )
    parser.add_argument(
        "--kubernetes-version",
        default="",
        help="the current version (default: that of the cluster or of a dump's newest kubelet; if there is neither, "
        "dralab's default, or the version before it if --against is the default)",
    )
    parser.add_argument(
        "--feature-gates",
        default="",
        help="feature gates of the current version, in addition to those that the cluster reports",
    )
    parser.add_argument("--gates-after", default="", help="feature gates of the other version")
    parser.add_argument("--runtime-config", default="", help="API versions to enable, as for kube-apiserver")
    parser.switch(
        "--pods", default=True, help="schedule the pods of the dump or cluster again, in both versions"
    )
    parser.add_argument("--output", "-o", default="", help="json or yaml instead of text")
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> int:
    """Print the report. Return 1 if anything is rejected, dropped or done differently.

    Raises:
        UserError: there is no such output, version or gate.
    """
    from dra_shared.features import read
    from dra_shared.version import Version
    from dra_worlds.check.checking import report
    from dra_worlds.check.finding import text
    from dra_worlds.check.reading import subject

    from dra_cli.outputs import check_data_output, format_data

    check_data_output(chosen.output)
    try:
        against = Version.parse(chosen.against)
        after = read(chosen.gates_after, against)
    except ValueError as error:
        raise UserError(str(error), 2) from error
    checked = subject(_subject_of(chosen), against)
    found = report(checked, against, after, chosen.runtime_config, with_pods=chosen.pods)
    for problem in checked.problems:
        print(f"dralab: {problem}", file=sys.stderr)
    print(format_data(found.builtins(), chosen.output) if chosen.output else text(found))
    return 0 if found.good else 1


def _subject_of(chosen: argparse.Namespace) -> "Named":
    from dra_worlds.check.reading import Named
    from dra_worlds.sources import is_kubeconfig, kubeconfig_cluster

    cluster, source = None, chosen.source
    is_chosen = any(getattr(chosen, name) for name in ("data", "kubeconfig", "context", "server"))
    if source is not None and is_kubeconfig(source):
        chosen_cluster(chosen)  # Raises an error if options contradict each other.
        cluster, source = kubeconfig_cluster(source, chosen.context), None
    elif source is None and (is_chosen or not chosen.files):
        cluster = chosen_cluster(chosen)
    return Named(
        chosen.files, source, cluster, chosen.kubernetes_version, chosen.feature_gates, chosen.recursive
    )
