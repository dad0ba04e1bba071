"""Convert older Dynamic Resource Allocation to resource.k8s.io/v1: pure functions over JSON objects.

"Classic" is everything before v1: the API with ResourceClass and parameters defined by drivers (v1alpha1 of
Kubernetes 1.26, v1alpha2 of 1.27 to 1.30, and v1alpha3 in some documents), and the later versions with
structured parameters (v1alpha3 of 1.31, v1beta1, v1beta2).

`convert` converts objects to v1. `dralab convert` and the translating controller use it.
"""

from dra_shared.classic.convert import Conversion, convert
from dra_shared.classic.notes import Note, Outcome

__all__ = ["Conversion", "Note", "Outcome", "convert"]
