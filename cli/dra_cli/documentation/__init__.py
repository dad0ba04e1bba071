"""The documentation's site: its pages, their HTML, and a server for it on this machine.

:mod:`~dra_cli.documentation.pages` gathers the pages, :mod:`~dra_cli.documentation.html` renders them unless MkDocs
has, and :mod:`~dra_cli.documentation.server` finds the site and serves it.
"""
