"""Tests of worlds (objects of a cluster from any source), and of the planner's questions about them."""
