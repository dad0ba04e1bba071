"""A kubelet for simulated nodes: it runs the pods bound to its node and uses the real kubelet's protocols."""
