"""Dynamic admission: run the policies and webhooks of admissionregistration.k8s.io objects.

``Dynamic(api, calls)`` follows those objects, and is ``api.dynamic``. ``of(request, target)`` returns the admission
of one request. The admission chain calls its ``mutate`` and ``validate`` at the place of upstream's plugins.
"""
