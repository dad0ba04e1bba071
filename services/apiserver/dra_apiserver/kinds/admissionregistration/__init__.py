"""admissionregistration.k8s.io: policies and webhooks. ``dynamic`` runs them for requests."""
