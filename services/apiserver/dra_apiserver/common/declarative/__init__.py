"""Declarative validation: the ``+k8s:`` tags of API types, run as validation-gen's code runs them.

``make schemas`` puts the tags into the schema data; `structs` reads them, `constraints` and `formats` are what one tag
asks (apimachinery's `pkg/api/validate`), and `rules` compiles a type's tags into one function.
"""
