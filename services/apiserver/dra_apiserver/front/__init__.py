"""The FastAPI application: endpoints for people and tools other than Kubernetes clients.

The resource API is mounted in it.
"""
