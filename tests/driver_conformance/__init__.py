"""The conformance suite for drivers, tried on a driver that keeps every promise and on mutants that break one each."""
