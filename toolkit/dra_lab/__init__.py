"""The lab: start a cluster's processes, restore and snapshot it, break it, and learn with it."""
