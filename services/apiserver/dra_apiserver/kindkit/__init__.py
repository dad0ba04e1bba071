"""The foundation of the kinds: the record of a kind, and the interface of its strategies."""
