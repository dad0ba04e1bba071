"""Lessons about DRA. Each has a small cluster, a task, goals that are checked on the cluster, hints and explanations.

A lesson is a folder of ``lessons``: the text is Markdown and everything else is YAML, so that other programs
can show lessons too.
"""
