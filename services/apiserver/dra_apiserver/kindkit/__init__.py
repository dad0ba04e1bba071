"""The ground floor of the kinds: the record of a kind, and the strategy that it declares."""
