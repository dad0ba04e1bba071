"""Tests of plans, which run the scheduler on a cluster in memory."""
