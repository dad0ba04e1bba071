"""Tests of ``dra_cli.check``."""
