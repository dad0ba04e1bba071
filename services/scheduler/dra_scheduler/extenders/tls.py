"""TLS with an extender (``makeTransport`` in upstream's ``pkg/scheduler/extender.go``)."""

import ssl

from dra_shared.client.kubeconfig import load_chain

from dra_scheduler.componentconfig.extenders import certificates
from dra_scheduler.componentconfig.types import Extender


def tls_context(extender: Extender) -> ssl.SSLContext:
    """Build the TLS context from the extender's configuration.

    Raises:
        OSError: a certificate cannot be read or is invalid.
    """
    found = certificates(extender)
    context = ssl.create_default_context(cadata=found.authority.decode() if found.authority else None)
    if found.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if found.certificate and found.key:
        load_chain(context, (found.certificate, found.key))
    return context
