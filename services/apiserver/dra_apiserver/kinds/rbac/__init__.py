"""rbac.authorization.k8s.io: roles and bindings, and the authorizer that uses them. ``kinds`` has the records."""
