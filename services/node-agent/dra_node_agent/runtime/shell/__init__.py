"""The part of a shell that demo containers use, run inside the process: nothing is executed on the host."""
