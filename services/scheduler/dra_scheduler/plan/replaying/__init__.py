"""``plan replay``: recorded arrivals and departures of pods, on other nodes or with another configuration."""
