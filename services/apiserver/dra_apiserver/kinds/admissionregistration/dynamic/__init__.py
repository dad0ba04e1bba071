"""Dynamic admission: the policies and webhooks that objects of admissionregistration.k8s.io ask for.

``Dynamic(api)`` follows those objects; while there is one, ``api.dynamic`` is it. ``of(request, target)`` admits one
request: ``mutate`` and ``validate`` are called where upstream's plugins stand.
"""
