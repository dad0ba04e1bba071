"""The conformance suite for drivers, run on a driver that passes every check and on mutants that fail one each."""
