"""Admission: what is refused or filled in whatever the kind's own strategy says.

A kind's `mutating_admission` runs on a new or changed object before its strategy, its `validating_admission` after it.
A plugin is called with the object in the stored version (None for a delete), the old one (None for a create), the
request's context and the operation, and refuses by raising StatusError. The policies and webhooks of the cluster come
after the mutating plugins, and before the quota. A plugin has upstream's name, by which
`--disable-admission-plugins` turns it off. Every write has a `Chain` of all of them.
"""

from dra_apiserver.admission.chain import Chain, Dynamic, NoDynamic, disabled_plugins

__all__ = ["Chain", "Dynamic", "NoDynamic", "disabled_plugins"]
