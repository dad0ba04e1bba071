"""The kinds of faults. :mod:`dra_shared.faults.catalog` lists them."""
