"""Dynamic admission: the policies and webhooks that objects of admissionregistration.k8s.io ask for.

``Dynamic(api)`` follows those objects; ``api.dynamic`` is it. ``of(request, target)`` admits one request: the admission
chain calls its ``mutate`` and ``validate`` where upstream's plugins stand.
"""
