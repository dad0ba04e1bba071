"""Declarative validation: interpret the ``+k8s:`` tags of API types like the code that validation-gen generates.

``make schemas`` puts the tags into the schema data. `structs` reads them, `constraints` and `formats`
implement single tags (apimachinery's `pkg/api/validate`), and `rules` compiles a type's tags into one
function.
"""
