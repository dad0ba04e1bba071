"""The conformance suite for DRA drivers; :mod:`dralab.conformance` has its public names."""
