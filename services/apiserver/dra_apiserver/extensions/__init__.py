"""Custom resources: CustomResourceDefinitions and the kinds that they define.

``Definitions(api)`` follows the stored definitions: it accepts their names, keeps the registry in step with them and
removes the objects of a definition that goes. ``validate_custom(schema, obj)`` checks an object against its schema.
"""

from dra_apiserver.extensions.definitions import accepted_status, kind_of_definition
from dra_apiserver.extensions.follow import Definitions
from dra_apiserver.extensions.validation import validate_custom

__all__ = ["Definitions", "accepted_status", "kind_of_definition", "validate_custom"]
