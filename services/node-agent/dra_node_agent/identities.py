"""The users as which an agent's kubelets and drivers authenticate."""

import contextlib
from collections.abc import Mapping

from dra_shared.client.kubeconfig import Access
from dra_shared.client.rest import Client

USER_AGENT = "dralab-node-agent"


class Identities:
    """Clients of the API server for each node's users, closed with ``stack``.

    If a user has no credentials, the agent acts as itself.

    Args:
        accesses: credentials by user; the kubelet of node NAME is ``system:node:NAME``, its drivers are
            ``dralab:driver:NAME``.
    """

    def __init__(
        self, client: Client, accesses: Mapping[str, Access], stack: contextlib.AsyncExitStack
    ) -> None:
        self._client = client
        # Like the heartbeat client of the kubelet: the requests of thousands of nodes must not delay a Lease.
        self._heartbeats = client.separate()
        self._accesses = accesses
        self._stack = stack
        self._made: dict[tuple[str, Client], Client] = {}
        if self._heartbeats is not client:
            stack.push_async_callback(self._heartbeats.aclose)

    def kubelet(self, node: str) -> Client:
        """Return the kubelet's client."""
        return self._of(_kubelet(node), self._client)

    def heartbeats(self, node: str) -> Client:
        """Return the kubelet's client for its Node and its Lease."""
        return self._of(_kubelet(node), self._heartbeats)

    def drivers(self, node: str) -> Client:
        """Return the client of the node's drivers."""
        return self._of(f"dralab:driver:{node}", self._client)

    def _of(self, user: str, base: Client) -> Client:
        access = self._accesses.get(user)
        if access is None:
            return base
        certified = access.ssl_context is not access.bare_context
        # Clients with tokens may share connections. Clients with certificates may not, so they do not wait
        # for other nodes.
        key = (user, self._client if certified else base)
        if key not in self._made:
            self._made[key] = made = (
                access.client(USER_AGENT, self._client.read_url)
                if certified
                else base.with_token(access.token or "")
            )
            self._stack.push_async_callback(made.aclose)
        return self._made[key]


def _kubelet(node: str) -> str:
    return f"system:node:{node}"
