"""The paths of the FastAPI application, in a module that does not import FastAPI."""

# The first segments of the FastAPI application's paths. Health is one of them, but probes are answered without
# it.
PATHS = frozenset({"docs", "redoc", "openapi.json", "assets", "console", "debug", "insight"})
# Key in a request's scope: set if the FastAPI application has no such path and passed the request on.
MOUNTED = "dralab.mounted"
