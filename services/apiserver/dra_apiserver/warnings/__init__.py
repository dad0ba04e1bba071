"""What is stored though it may not do what was hoped for, as texts for Warning headers."""

from dra_apiserver.warnings.catalog import warnings_on_create, warnings_on_update

__all__ = ["warnings_on_create", "warnings_on_update"]
