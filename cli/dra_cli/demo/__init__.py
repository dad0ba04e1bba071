"""``dralab demo``: a whole cluster, from nothing to running pods and back to nothing, told as it happens."""
