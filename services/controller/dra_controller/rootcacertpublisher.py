"""Creates the ConfigMap kube-root-ca.crt in every namespace: the certificates by which pods verify the API server.

Mirrors pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from dra_shared.api.core import ConfigMap, Namespace
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import CONFIG_MAPS, NAMESPACES
from dra_shared.client.errors import AlreadyExists, Forbidden, NotFound
from msgspec.structs import replace

from dra_controller.framework import Context, QueueController
from dra_controller.workload import TERMINATING

_NAME = "kube-root-ca.crt"
_ANNOTATION = "kubernetes.io/description"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCACertificatePublisher(QueueController):
    """The root-ca-certificate-publisher-controller of kube-controller-manager."""

    name = "root-ca-certificate-publisher-controller"
    queue_name = "root_ca_cert_publisher"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        namespaces = self.watch(NAMESPACES)
        config_maps = self.watch(CONFIG_MAPS)
        self._namespaces, self._config_maps = namespaces.store, config_maps.store
        namespaces.add_handler(self._enqueue, lambda _, new: self._enqueue(new))
        config_maps.add_handler(
            on_update=lambda _, new: self._config_map_changed(new), on_delete=self._config_map_changed
        )

    def _enqueue(self, namespace: Namespace) -> None:
        self.queue.add(namespace.metadata.name)

    def _config_map_changed(self, config_map: ConfigMap) -> None:
        if config_map.metadata.name == _NAME:
            self.queue.add(config_map.metadata.namespace)

    async def reconcile(self, key: str) -> None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.status.phase == "Terminating":
            return
        data = {"ca.crt": self._context.root_ca}
        found = self._config_maps.get(f"{key}/{_NAME}")
        if found is None:
            await self._publish(key, data)
        elif found.data != data or not found.metadata.annotations.get(_ANNOTATION):
            annotations = {**found.metadata.annotations, _ANNOTATION: _DESCRIPTION}
            metadata = replace(found.metadata, annotations=annotations)
            await self._client.update(CONFIG_MAPS, replace(found, metadata=metadata, data=data))

    async def _publish(self, namespace: str, data: dict[str, str]) -> None:
        metadata = ObjectMeta(name=_NAME, namespace=namespace, annotations={_ANNOTATION: _DESCRIPTION})
        try:
            await self._client.create(CONFIG_MAPS, ConfigMap(metadata=metadata, data=data))
        except (AlreadyExists, NotFound):
            return
        except Forbidden as error:
            if not error.has_cause(TERMINATING):
                raise
