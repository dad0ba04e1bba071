"""Tests of ``dra_worlds.check``."""
