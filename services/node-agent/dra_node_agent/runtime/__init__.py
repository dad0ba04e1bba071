"""What runs the containers of pods: simulated ones, or those of a container engine."""
