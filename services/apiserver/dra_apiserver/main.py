"""The `dralab-apiserver` command."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from dra_shared.durations import parse_age
from dra_shared.retention import WINDOW, Retention, parse_retention
from dra_shared.service import Options, boolean, create_tls, guard, run
from dra_shared.service import features as service_features

from dra_apiserver import admission
from dra_apiserver.audit import ensure_log_file, load_policy
from dra_apiserver.config import ALWAYS_ALLOW, AuditOptions, Config, authorization_mode
from dra_apiserver.credentials import read_token_file
from dra_apiserver.kinds import catalog
from dra_apiserver.nodeaccess import NodeAccess
from dra_apiserver.registry import RuntimeConfigError
from dra_apiserver.serviceaccount import KeyOptions, Keys, TokenOptions
from dra_apiserver.serviceaccount.tokens import ISSUER
from dra_apiserver.storage.catalog import IN_DIRECTORY, Database
from dra_apiserver.storage.catalog import engine as find_engine


def history(text: str) -> Retention:
    """Parse the retention of history.

    Raises:
        ValueError: the text is not a retention.
    """
    return parse_retention(text)


def seconds(text: str) -> int:
    """Parse the seconds of ``24h`` or ``90m``.

    Raises:
        ValueError: the text is not a duration.
    """
    found = parse_age(text)
    if found is None:
        raise ValueError(f"no duration: {text}")
    return int(found)


# Long: each option is one statement, in the order of the help.
def options() -> Options:
    """Return the command's options."""
    made = Options("apiserver", "Serve the Kubernetes API.")
    made.option(
        "--listen",
        default="127.0.0.1",
        help="address to listen on; see docs/security.md before you choose another",
    )
    made.option("--port", default=8080, type=int, help="port to listen on; 0: any free port")
    made.option(
        "--data",
        default=Path(".dralab"),
        type=Path,
        help="the cluster's directory; the database is in apiserver/",
    )
    made.option(
        "--database",
        default=IN_DIRECTORY,
        help="the database: sqlite:///FILE, sqlite: for a file in the data directory, postgresql://… "
        "(docs/scaling.md), or memory:, which lasts until the server ends",
    )
    made.option(
        "--relaxed",
        default=False,
        action="store_true",
        help="answer writes before they are on the disk; a crash of the machine may lose the last ones",
    )
    made.option(
        "--history",
        default=None,
        type=history,
        help="how much history to keep: all, 24h, 2Gi or 24h,2Gi; the default is that of the last start, at first 5m; "
        "see docs/history.md",
    )
    made.option(
        "--past",
        default=None,
        type=Path,
        help="a file with another cluster's history, which is loaded into an empty database (dralab up --from BUNDLE)",
    )
    made.option(
        "--runtime-config",
        default="",
        help="API versions to serve in addition to the stable ones: api/all=true, resource.k8s.io/v1beta1=true, …; "
        "resource.k8s.io/classic=true for the older DRA (docs/classic-dra.md)",
    )
    made.feature_options()
    made.option(
        "--authorization-mode",
        default=ALWAYS_ALLOW,
        help="RBAC: roles and bindings decide; Node,RBAC: in addition, nodes may read the objects that their "
        "pods need; see docs/authorization.md",
    )
    made.option(
        "--disable-admission-plugins",
        default="",
        help="admission plugins to turn off: ServiceAccount,TaintNodesByCondition,…; see docs/admission.md",
    )
    made.option(
        "--metrics-server",
        default=False,
        action="store_true",
        help="serve metrics.k8s.io, as clusters with metrics-server do: kubectl top",
    )
    made.option(
        "--anonymous-auth",
        default=True,
        type=boolean,
        help="false: every request needs credentials; true: a request without credentials is from the "
        "administrator or, with --client-ca-file, from system:anonymous",
    )
    made.option(
        "--token-auth-file",
        default=None,
        type=Path,
        help='tokens of users, one a line: token,user,uid,"group1,group2"',
    )
    _service_account_options(made)
    made.tls_options(
        "users: the common name is the user, organizations are groups; read again after a change"
    )
    made.option(
        "--kubelet-token-file",
        default=None,
        type=Path,
        help="file with the token for requests to nodes: their --serving-token-file",
    )
    made.option(
        "--kubelet-client-certificate",
        default=None,
        type=Path,
        help="client certificate for requests to nodes, which then use HTTPS; its CA is the nodes' --client-ca-file",
    )
    made.option("--kubelet-client-key", default=None, type=Path, help="that certificate's key")
    made.option(
        "--kubelet-certificate-authority",
        default=None,
        type=Path,
        help="CA of the nodes' certificates (default: certificates are not checked)",
    )
    made.option(
        "--scheduler-url",
        default="",
        help="URL of the scheduler's health port, for the explanations and plans of /insight",
    )
    made.option(
        "--supervisor-url",
        default="",
        help="URL of the services' supervisor, which stops and kills them for /faults",
    )
    made.option(
        "--supervisor-token-file",
        default=None,
        type=Path,
        help="file with the token for requests to the supervisor",
    )
    made.guard_options()
    _audit_options(made)
    made.option(
        "--access-log",
        default=False,
        action="store_true",
        help="log every request; slow ones (over a second) and errors from 500 are always logged",
    )
    return made


def _service_account_options(made: Options) -> None:
    made.option(
        "--service-account-signing-key-file",
        default=None,
        type=Path,
        help="private key that signs service accounts' tokens (default: a new one in the data directory)",
    )
    made.option(
        "--service-account-key-file",
        default=[],
        action="append",
        help="further keys whose signatures are accepted, public or private; may be repeated",
    )
    made.option(
        "--service-account-issuer",
        default=[],
        action="append",
        help=f"issuer of tokens ({ISSUER}; see docs/authorization.md); may be repeated: the first one "
        "issues tokens, and tokens of all are accepted",
    )
    made.option(
        "--service-account-jwks-uri", default="", help="URL of the public keys, if they are on another server"
    )
    made.option(
        "--service-account-max-token-expiration",
        default=0,
        type=seconds,
        help="the longest lifetime that a token may be requested for: 24h (default: 2^32 seconds)",
    )
    made.option(
        "--service-account-extend-token-expiration",
        default=True,
        type=boolean,
        help="whether tokens that kubelets request for pods are valid for a year",
    )
    made.option(
        "--api-audiences", default="", help="comma-separated audiences of this server (default: the issuers)"
    )


def _token_options(chosen: argparse.Namespace) -> TokenOptions:
    """Return the settings of service accounts' tokens.

    Raises:
        ValueError: a value is one that upstream rejects.
    """
    return TokenOptions(
        issuers=tuple(chosen.service_account_issuer) or (ISSUER,),
        audiences=tuple(filter(None, chosen.api_audiences.split(","))),
        jwks_uri=chosen.service_account_jwks_uri,
        longest=chosen.service_account_max_token_expiration,
        extend=chosen.service_account_extend_token_expiration,
    )


def _audit_options(made: Options) -> None:
    made.option(
        "--audit-policy-file",
        default=None,
        type=Path,
        help="a Policy of audit.k8s.io/v1: which requests are logged; see docs/security.md",
    )
    made.option("--audit-log-path", default="", help="the audit log's file; - for standard output")
    made.option("--audit-log-maxsize", default=0, type=int, help="MiB after which a new file begins (100)")
    made.option("--audit-log-maxbackup", default=0, type=int, help="how many old files are kept; 0: all")
    made.option("--audit-log-maxage", default=0, type=int, help="how many days they are kept; 0: all")
    made.option("--audit-log-compress", default=False, action="store_true", help="pack old files with gzip")


def _audit(chosen: argparse.Namespace) -> AuditOptions | None:
    """Return the settings of the audit log. As upstream, nothing is logged without a policy.

    Raises:
        OSError: the policy can't be read, or the log can't be written.
        ValueError: the policy is invalid, or a number is negative.
    """
    for name in ("maxage", "maxbackup", "maxsize"):
        value = getattr(chosen, f"audit_log_{name}")
        if value < 0:
            raise ValueError(f"--audit-log-{name} {value} can't be a negative number")
    if chosen.audit_policy_file is None:
        return None
    load_policy(chosen.audit_policy_file)
    if not chosen.audit_log_path:
        return None
    ensure_log_file(chosen.audit_log_path)
    return AuditOptions(
        chosen.audit_policy_file,
        chosen.audit_log_path,
        chosen.audit_log_maxsize,
        chosen.audit_log_maxbackup,
        chosen.audit_log_maxage,
        chosen.audit_log_compress,
    )


def _node_access(chosen: argparse.Namespace) -> NodeAccess:
    """Return the settings for reaching nodes.

    Raises:
        OSError: a file cannot be used.
        ValueError: the options contradict each other.
    """
    certificate, key = chosen.kubelet_client_certificate, chosen.kubelet_client_key
    if (certificate is None) != (key is None):
        raise ValueError("--kubelet-client-certificate and --kubelet-client-key go together")
    token = chosen.kubelet_token_file.read_text().strip() if chosen.kubelet_token_file else ""
    access = NodeAccess(token, certificate, key, chosen.kubelet_certificate_authority)
    access.context()
    return access


def _check_database(chosen: argparse.Namespace) -> None:
    """Check that the options are compatible with the database.

    Raises:
        ValueError: they are not, or the database is unknown.
    """
    find_engine(Database(chosen.database, chosen.data, chosen.relaxed))


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = options()
    chosen = parser.parse_args(arguments)
    try:
        features = service_features(chosen)
        authorization_mode(chosen.authorization_mode)
        catalog.runtime_config(chosen.runtime_config)
        disabled_plugins = admission.disabled_plugins(chosen.disable_admission_plugins, catalog.KINDS)
        tls = create_tls(chosen)
        nodes = _node_access(chosen)
        audit = _audit(chosen)
        tokens = _token_options(chosen)
        verifying_keys = tuple(map(Path, chosen.service_account_key_file))
        Keys(KeyOptions(chosen.data, chosen.service_account_signing_key_file, verifying_keys)).load()
        _check_database(chosen)
        known_tokens = read_token_file(chosen.token_auth_file) if chosen.token_auth_file else {}
    except (OSError, ValueError, RuntimeConfigError) as error:
        parser.error(str(error))
    config = Config(
        listen=chosen.listen,
        port=chosen.port,
        data=chosen.data,
        database=chosen.database,
        relaxed=chosen.relaxed,
        past=chosen.past,
        history=chosen.history.window if chosen.history else WINDOW,
        retention=chosen.history,
        runtime_config=chosen.runtime_config,
        features=features,
        access_log=chosen.access_log,
        authorization_mode=chosen.authorization_mode,
        disabled_plugins=disabled_plugins,
        anonymous_auth=chosen.anonymous_auth,
        known_tokens=known_tokens,
        nodes=nodes,
        audit=audit,
        tokens=tokens,
        signing_key=chosen.service_account_signing_key_file,
        verifying_keys=verifying_keys,
        scheduler_url=chosen.scheduler_url,
        supervisor_url=chosen.supervisor_url,
        supervisor_token_file=chosen.supervisor_token_file,
        metrics_server=chosen.metrics_server,
        tls=tls,
        client_certificates=chosen.client_ca_file is not None,
        guard=guard(chosen),
    )

    async def serve() -> None:
        from dra_apiserver.server import ApiServer

        async with ApiServer(config):
            await asyncio.Event().wait()

    sys.exit(run("apiserver", chosen.log_level, serve))


if __name__ == "__main__":
    main()
