"""admissionregistration.k8s.io: policies and webhooks; ``dynamic`` has them judge requests."""
