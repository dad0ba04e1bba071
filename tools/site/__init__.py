"""The documentation as a site: ``python -m tools.site [--out site]``, which is ``make docs``.

:mod:`dra_cli.documentation.pages` gathers the pages, :mod:`tools.site.build` has MkDocs make HTML of them, without
network.
"""
