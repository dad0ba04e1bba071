"""rbac.authorization.k8s.io: roles and bindings, and what they allow. ``kinds`` has the records."""
