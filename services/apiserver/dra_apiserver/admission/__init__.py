"""Admission: checks and changes of writes that are independent of the kind's own strategy.

The mutating plugins of a kind (`Kind.admission`) run on a new or changed object before its strategy. The
validating plugins run after it. A plugin is called with the object in the storage version (None for a delete),
the old object (None for a create), the request's context and the operation. It rejects the request by raising
StatusError. The policies and webhooks of the cluster run after the mutating plugins, and before the
ResourceQuota plugin. A plugin has upstream's name, and `--disable-admission-plugins` turns it off by that name.
Every write has a `Chain` of all plugins.
"""

from dra_apiserver.admission.chain import Chain, Dynamic, NoDynamic, disabled_plugins

__all__ = ["Chain", "Dynamic", "NoDynamic", "disabled_plugins"]
