"""Which paths are the front's; asked without importing FastAPI."""

# The first parts of the front's own paths. Health is in it, too; but probes are answered without it.
PATHS = frozenset({"docs", "redoc", "openapi.json", "assets", "console", "debug", "insight"})
# In a request's scope: it came through the front, which has nothing of that path.
MOUNTED = "dralab.mounted"
