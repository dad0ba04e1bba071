"""``plan replay``: pods that come and go as they once did, on other nodes or with another scheduler configuration."""
