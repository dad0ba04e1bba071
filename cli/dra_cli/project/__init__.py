"""Projects that ``dralab new`` writes: a driver's program, tests, manifests and CI, from the files in ``template``.

The template is a driver for dongles. Its words for those become the new driver's, so that the files read as if written
for it.
"""
