"""FastAPI's application: what people and tools use besides Kubernetes clients; the resource API is mounted in it."""
