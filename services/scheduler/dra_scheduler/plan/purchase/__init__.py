"""``plan nodes``: the cheapest nodes for all waiting pods, with a lower bound of the cost."""
