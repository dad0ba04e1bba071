"""``dralab demo``: a whole cluster, from nothing to running pods and back to nothing, with a report of each step."""
