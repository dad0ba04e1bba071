"""The paths of the front, without importing FastAPI."""

# The first segments of the front's own paths. Health is one of them, but probes are answered without the
# front.
PATHS = frozenset({"docs", "redoc", "openapi.json", "assets", "console", "debug", "insight"})
# Key in a request's scope: the request came through the front, which has no such path.
MOUNTED = "dralab.mounted"
