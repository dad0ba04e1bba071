"""Clusters for tests, and the pytest plugin; :mod:`dralab.testing` has their public names."""
