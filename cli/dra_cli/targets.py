"""Find the objects that words, manifests and selectors name, for commands that delete objects or wait for them."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dra_kube.objects import Target, target
from dra_shared.errors import UserError

from dra_cli.access import chosen_cluster

if TYPE_CHECKING:
    from dra_kube.reader import Reader
    from dra_kube.selection import Selected
    from dra_shared.client.rest import Client

    from dra_cli.commandline import Parser
    from dra_cli.outputs import Show


def stored_output_option(parser: "Parser") -> None:
    """Add the option for :func:`read_output`."""
    parser.add_argument(
        "--output",
        "-o",
        default="",
        help="print each stored object: name, yaml, json, jsonpath=… or another output of `get`",
    )


def read_output(output: str) -> "Show | None":
    """Return the printer of stored objects, or None if no output is chosen.

    Raises:
        UserError: there is no such output.
    """
    from dra_cli.outputs import show

    shown = show(output) if output else None
    if output and shown is None:
        raise UserError(f"unknown output {output!r}: choose name, yaml, json, jsonpath=… or go-template=…", 2)
    return shown


def recursive_option(parser: "Parser") -> None:
    """Add kubectl's option that reads the folders of a folder."""
    parser.switch("--recursive", "-R", help="read the subfolders of folders, too")


def target_options(parser: "Parser", verb: str) -> None:
    """Add the options for :func:`manifests_of` and :func:`targets`. ``verb`` says what the command does."""
    parser.add_argument("what", nargs="*", help="KIND NAME…, KIND/NAME…, or KIND with --all or --selector")
    parser.add_argument(
        "--filename", "-f", action="append", default=[], help=f"{verb} the objects in these manifests"
    )
    recursive_option(parser)
    parser.add_argument("--kustomize", "-k", metavar="DIR", help=f"{verb} the objects of this kustomization")
    parser.add_argument("--all", action="store_true", help="all objects of the kind in the namespace")
    parser.add_argument("--selector", "-l", help="only objects with these labels")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument(
        "--all-namespaces", "-A", action="store_true", help="with --all: objects of all namespaces"
    )


def manifests_of(chosen: argparse.Namespace, verb: str) -> list[dict[str, Any]]:
    """Return the objects of the manifests; none if objects are named.

    Raises:
        UserError: neither names nor manifests are given, or both, or the manifests cannot be used.
    """
    from dra_kube import manifests
    from dra_kube.kustomization import build

    loaded: list[dict[str, Any]] = []
    if chosen.filename:
        loaded += manifests.load(chosen.filename, recursive=chosen.recursive)
    loaded += build(chosen.kustomize) if chosen.kustomize else []
    if bool(loaded) == bool(chosen.what):
        raise UserError(f"say what to {verb}: either KIND NAME… or --filename", 2)
    return loaded


async def targets(
    chosen: argparse.Namespace, client: "Client", loaded: list[dict[str, Any]], verb: str
) -> list[Target]:
    """Return the objects of the manifests, or those that are named or selected."""
    from dra_kube.discovery import Discovery

    if loaded:
        discovery = await Discovery.read(client)
        return [target(discovery, obj, chosen.namespace) for obj in loaded]
    from dra_kube.selection import discover, select

    with chosen_cluster(chosen).reader() as reader:
        return [
            found
            for one in select(discover(reader, chosen.what), chosen.what)
            for found in _of(chosen, reader, one, verb)
        ]


def _of(chosen: argparse.Namespace, reader: "Reader", one: "Selected", verb: str) -> Iterator[Target]:
    everywhere = chosen.all_namespaces or not one.resource.namespaced
    space = None if everywhere else chosen.namespace or "default"
    yield from (Target(one.resource, space, name) for name in one.names)
    if one.names:
        return
    if not (chosen.all or chosen.selector):
        raise UserError(f"say which to {verb}: KIND NAME…, --all or --selector", 2)
    for item in reader.json(one.resource.path(space), {"labelSelector": chosen.selector})["items"]:
        meta = item["metadata"]
        yield Target(one.resource, meta.get("namespace"), meta["name"])
