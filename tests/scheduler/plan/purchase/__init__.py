"""Tests of the search for the nodes to buy."""
