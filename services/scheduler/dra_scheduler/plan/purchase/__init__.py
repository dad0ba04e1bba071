"""``plan nodes``: the cheapest nodes on which all that waits fits, with a bound on what could be saved."""
