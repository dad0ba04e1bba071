"""What all tests share: property tests look at the same examples in every run, however busy the machine is.

``HYPOTHESIS_PROFILE=search`` has them look at others.
"""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
