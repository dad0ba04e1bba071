"""Helpers of several packages: fakes, builders of objects, waiting, and the reference material."""
