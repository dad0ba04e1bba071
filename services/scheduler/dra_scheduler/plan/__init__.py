"""What the scheduler would do: the scheduler itself on a world in memory, without a server, sockets or real time."""
