"""From the older Dynamic Resource Allocation to resource.k8s.io/v1: pure functions over objects as they are in JSON.

"Classic" is all that came before v1: the API with ResourceClass and parameters of the driver's own (v1alpha1 of
Kubernetes 1.26, v1alpha2 of 1.27 to 1.30, and v1alpha3 where a document spells it so), and the versions of structured
parameters since (v1alpha3 of 1.31, v1beta1, v1beta2).

`convert` turns objects into today's; `dralab convert` and the translating controller use it.
"""

from dra_shared.classic.convert import Conversion, convert
from dra_shared.classic.notes import Note, Outcome

__all__ = ["Conversion", "Note", "Outcome", "convert"]
