"""An authorization webhook: tenants own the namespaces with their prefix, and production is protected.

    python access_webhook.py --certificate tls.crt --key tls.key

Rules that RBAC cannot express, since it has no patterns of namespaces and cannot deny:

- members of the group `tenant:shop` have all permissions in namespaces `shop-...`
- only `tenant-admins` can open shells in pods, or delete, in namespaces `...-prod`
"""

from __future__ import annotations

import argparse
import asyncio

from kubewright.manager.signals import stopping_on_signals
from kubewright.webhook import AccessRequest, AccessReviewer, CertificateFiles, Denied, WebhookServer

TENANT = "tenant:"
ADMINISTRATORS = "tenant-admins"


def is_allowed(request: AccessRequest) -> bool:
    """Return whether a request is allowed; with `False` the next authorizer decides."""
    groups = request.user.groups or []
    if is_dangerous(request) and request.namespace.endswith("-prod") and ADMINISTRATORS not in groups:
        raise Denied(f"only {ADMINISTRATORS} can do this in {request.namespace}")
    tenants = [group.removeprefix(TENANT) for group in groups if group.startswith(TENANT)]
    return any(request.namespace.startswith(f"{tenant}-") for tenant in tenants if tenant)


def is_dangerous(request: AccessRequest) -> bool:
    """Return whether a request opens a shell or deletes."""
    is_shell = request.resource == "pods" and request.subresource in ("exec", "attach", "portforward")
    return is_shell or request.verb in ("delete", "deletecollection")


def add_to(server: WebhookServer) -> None:
    """Serve access reviews at /authorize."""
    server.add_endpoint("/authorize", AccessReviewer(is_allowed))


async def main() -> None:
    parser = argparse.ArgumentParser(description="Authorization webhook for tenants.")
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--port", type=int, default=9443)
    options = parser.parse_args()
    server = WebhookServer(CertificateFiles(options.certificate, options.key), port=options.port)
    add_to(server)
    stop = asyncio.Event()
    with stopping_on_signals(stop):
        await server.run(stop)


if __name__ == "__main__":
    asyncio.run(main())
