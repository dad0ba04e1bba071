"""The runtimes for the containers of pods: one that simulates them, and one that uses a container engine."""
