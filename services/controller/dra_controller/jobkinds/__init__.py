"""Small controllers of the kinds that people write jobs in, for clusters without the operators of those kinds.

``--with`` chooses them; docs/job-kinds.md says what each leaves to the real operator.
"""
