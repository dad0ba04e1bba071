"""The commands of ``dralab``: one module each, with ``options`` and ``run``."""
