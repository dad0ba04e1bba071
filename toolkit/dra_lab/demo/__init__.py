"""``dralab demo``: start a whole cluster, run pods and delete everything again, with a report of each step."""
