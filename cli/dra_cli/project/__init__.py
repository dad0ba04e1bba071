"""Projects for ``dralab new``: a driver's program, tests, manifests and CI, from the files in ``template``.

The template is a driver for dongles. Its names are replaced by the new driver's, so the files read as if they were
written for it.
"""
