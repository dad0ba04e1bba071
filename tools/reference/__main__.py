"""``make reference``: write the generated tables of the pages in ``docs/`` again, and the schemas of ``/insight``."""

from tools import insight
from tools.reference.tables import ROOT, write

for path in write():
    print(path.relative_to(ROOT))
insight.FILE.write_text(insight.text())
