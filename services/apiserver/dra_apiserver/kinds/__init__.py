"""The kinds of objects and their behaviour: one package for each group, one record for each kind.

``catalog`` imports them all.
"""
