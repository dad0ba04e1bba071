"""The API objects that dralab's services reason about, as typed, immutable structs.

``dra_shared.api.resources`` names the resources (path, kind, type);
``dra_shared.api.codec`` reads and writes them.
"""
