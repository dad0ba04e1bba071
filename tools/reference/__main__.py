"""``make reference``: write the generated tables of the pages in ``docs/`` again."""

from tools.reference.tables import ROOT, write

for path in write():
    print(path.relative_to(ROOT))
