"""The part of a shell that demo containers use. It runs inside this process, and executes nothing on the host."""
