"""Creates the ``default`` ServiceAccount in every namespace.

Mirrors pkg/controller/serviceaccount/serviceaccounts_controller.go.
"""

from dra_shared.api.core import Namespace, ServiceAccount
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import NAMESPACES, SERVICE_ACCOUNTS
from dra_shared.client.errors import AlreadyExists, Forbidden, NotFound

from dra_controller.framework import Context, QueueController
from dra_controller.workload import TERMINATING

_NAME = "default"


class ServiceAccountController(QueueController):
    """The serviceaccount-controller of kube-controller-manager."""

    name = "serviceaccount-controller"
    queue_name = "serviceaccount"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        namespaces = self.watch(NAMESPACES)
        accounts = self.watch(SERVICE_ACCOUNTS)
        self._namespaces, self._accounts = namespaces.store, accounts.store
        namespaces.add_handler(self._enqueue, lambda _, new: self._enqueue(new))
        accounts.add_handler(on_delete=self._account_deleted)

    def _enqueue(self, namespace: Namespace) -> None:
        self.queue.add(namespace.metadata.name)

    def _account_deleted(self, account: ServiceAccount) -> None:
        self.queue.add(account.metadata.namespace)

    async def reconcile(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return
        if namespace.status.phase == "Terminating" or f"{key}/{_NAME}" in self._accounts:
            return
        account = ServiceAccount(metadata=ObjectMeta(name=_NAME, namespace=key))
        try:
            await self._client.create(SERVICE_ACCOUNTS, account)
        except (AlreadyExists, NotFound):
            return
        except Forbidden as error:
            if not error.has_cause(TERMINATING):
                raise
