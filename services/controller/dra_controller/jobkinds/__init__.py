"""Simple controllers for custom kinds of jobs such as JobSet, for clusters without the operators of these kinds.

``--with`` enables them; docs/job-kinds.md lists the features that only the real operators have.
"""
