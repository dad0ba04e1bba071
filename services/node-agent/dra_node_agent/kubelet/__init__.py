"""A kubelet for simulated nodes: it runs the pods bound to its node and speaks the real kubelet's protocols."""
