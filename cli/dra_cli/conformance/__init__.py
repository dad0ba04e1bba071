"""``dralab conformance``: our answers held against recorded ones, and drivers against the contract."""
