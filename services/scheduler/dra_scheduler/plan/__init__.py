"""Simulation of the scheduler on a world in memory, without a server, sockets or real time."""
