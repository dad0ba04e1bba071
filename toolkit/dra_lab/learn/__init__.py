"""Lessons about DRA: a small cluster each, a task, goals that watch the cluster, hints and explanations.

A lesson is a folder of ``lessons``: text as Markdown, everything else as YAML, so that others can show it too.
"""
