"""TLS to whoever answers: for where a certificate is the other side's own affair, or somebody has said so."""

import ssl


def unverified_context() -> ssl.SSLContext:
    """Of a client that believes every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
