"""The documentation as a site: ``python -m tools.site [--out site]``, which is ``make docs``.

:mod:`dra_cli.documentation.pages` collects the pages, and :mod:`tools.site.build` runs MkDocs, which converts
them to HTML without network.
"""
