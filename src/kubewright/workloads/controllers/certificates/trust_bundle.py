"""The trust bundle of the API server: the authority that signs its serving certificates.

Pods mount it with a `clusterTrustBundle` source of the signer. Its name has a hash of the authority, so that
a new authority has a new bundle; bundles of former authorities are deleted.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Iterable

from kubewright.api.certificates.v1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubewright.api.meta import ObjectMeta
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager

logger = logging.getLogger(__name__)

CONTROLLER = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
SIGNER = "kubernetes.io/kube-apiserver-serving"


def add_trust_bundle_publisher(manager: ComponentManager) -> None:
    """Add the controller that publishes the authority, if it is known."""
    authority = manager.workloads.connection.serving_authority()
    if authority is None:
        logger.info("trust bundle of the API server is not published, its authority is not known")
        return
    name = bundle_name(SIGNER, authority)
    text = authority.decode()

    async def reconcile(request: Request) -> None:
        client = manager.client
        current = await client.get_or_none(ClusterTrustBundle, name)
        if current is None:
            spec = ClusterTrustBundleSpec(signer_name=SIGNER, trust_bundle=text)
            await client.create(ClusterTrustBundle(metadata=ObjectMeta(name=name), spec=spec))
        elif current.spec is None or current.spec.trust_bundle != text:
            current.spec = ClusterTrustBundleSpec(signer_name=SIGNER, trust_bundle=text)
            await client.update(current)
        for other in await client.list(ClusterTrustBundle):
            if other.name != name and other.spec is not None and other.spec.signer_name == SIGNER:
                await client.delete(other, missing_ok=True)

    async def first() -> AsyncIterator[Request]:
        yield Request("", name)

    def changed(bundle: ClusterTrustBundle) -> Iterable[Request]:
        if bundle.spec is not None and bundle.spec.signer_name == SIGNER:
            yield Request("", name)

    (
        ControllerBuilder[Request](manager, CONTROLLER)
        .source(first(), name="start")
        .watches(ClusterTrustBundle, changed)
        .complete(reconcile)
    )


def bundle_name(signer: str, bundle: bytes) -> str:
    """Return the name of a bundle of a signer."""
    return f"{signer.replace('/', ':')}:{hashlib.sha256(bundle).hexdigest()[:24]}"
