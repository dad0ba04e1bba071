"""Validate derived attributes of requests: names that constraints compare, and expressions within the claim's
budget.
"""

from __future__ import annotations

from collections.abc import Iterable

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import FieldError, forbidden_field, invalid
from dra_apiserver.kinds.resource.declared import UNREFERENCED
from dra_apiserver.kinds.resource.lists import Lists
from dra_apiserver.kinds.resource.selectors import EXPRESSION_COST, compile_checked

_TOTAL = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"


class DerivedAttributes:
    """Validates the derived attributes of one claim, and sums up their costs
    (DeviceClaimDerivedAttributeCELMaxCost).
    """

    def __init__(self, constraints: Iterable[JsonObject], gates: FeatureGates) -> None:
        self._gates = gates
        # The compared names by the request that a constraint applies to; "" means all.
        self._compared: dict[str, set[str]] = {}
        self._cost = 0
        for constraint in constraints:
            match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
            attribute = distinct if match is None else match
            if attribute is not None:
                for request in constraint.get("requests") or ("",):
                    self._compared.setdefault(request, set()).add(attribute)

    def check(self, attributes: list[JsonObject] | None, path: str, request: str) -> list[FieldError]:
        """Validate the derived attributes of one request, or of one of its alternatives, named REQUEST/NAME."""
        return Lists(self._gates.version).check_set(
            attributes,
            # Validate all entries even if there are too many, because a declared rule reports that.
            None,
            lambda attribute, at: self._check(attribute, at, request),
            lambda attribute: attribute.get("name", ""),
            path,
        )

    def _check(self, attribute: JsonObject, path: str, request: str) -> list[FieldError]:
        name, expression = attribute.get("name", ""), attribute.get("expression", "")
        errors: list[FieldError] = []
        # Declared rules report a missing name or expression, and a malformed name.
        if name and not self._is_compared(name, request):
            errors.append(invalid(f"{path}.name", name, UNREFERENCED))
        at = f"{path}.expression"
        if not expression:
            return errors
        program, problems = compile_checked(expression, at, self._gates, derived=True)
        if program is not None:
            self._cost += program.estimated_cost
            if program.estimated_cost > EXPRESSION_COST:
                problems = [forbidden_field(at, "too complex, exceeds cost limit")]
        return errors + problems

    def _is_compared(self, name: str, request: str) -> bool:
        parent = request.partition("/")[0]
        return any(name in self._compared.get(target, ()) for target in ("", request, parent))

    def check_total(self, path: str) -> list[FieldError]:
        """Check that all expressions together are not too costly. Called after the others."""
        return [forbidden_field(path, _TOTAL)] if self._cost > EXPRESSION_COST else []
