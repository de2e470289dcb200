"""ClusterTrustBundle: trust anchors of a signer, or of the whole cluster.

A bundle of a signer has a name that begins with that of the signer (`example.com:signer:` for
`example.com/signer`); other names have no colon. The bundle consists of different CA certificates.
"""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import NONE, column, shown
from kubewright.controlplane.kinds.validation import Errors
from kubewright.controlplane.kinds.validation.formats import immutable
from kubewright.schema import field_errors as fe

from .pem import PEMBlock, pem_blocks
from .signers import bundle_name_errors, signer_name_errors

MAX_BUNDLE_SIZE = 1024 * 1024
_BUNDLE = "spec.trustBundle"
_OMITTED = "<value omitted>"


def _errors(obj: Object, *, parses_bundle: bool = True) -> Errors:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
    signer = spec.get("signerName") or ""
    errors: Errors = [fe.invalid("metadata.name", name, text) for text in bundle_name_errors(name, signer)]
    if signer:
        errors += signer_name_errors(signer, "spec.signerName")
    if parses_bundle:
        errors += _bundle_errors(spec.get("trustBundle") or "")
    return errors


def _update_errors(obj: Object, old: Object) -> Errors:
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    errors = _errors(obj, parses_bundle=spec.get("trustBundle") != before.get("trustBundle"))
    path = "spec.signerName"
    return errors + immutable(spec.get("signerName") or "", before.get("signerName") or "", path)


def _bundle_errors(bundle: str) -> Errors:
    if len(bundle.encode()) > MAX_BUNDLE_SIZE:
        return [fe.too_long(_BUNDLE, MAX_BUNDLE_SIZE)]
    errors: Errors = []
    positions: dict[bytes, list[int]] = {}
    for position, block in enumerate(pem_blocks(bundle)):
        data = b""
        if block.type != "CERTIFICATE":
            problem = f"has bad block type: {block.type}"
        elif block.has_headers:
            problem = "has PEM block headers"
        else:
            data, problem = _authority(block)
        if problem:
            errors.append(fe.invalid(_BUNDLE, _OMITTED, f"entry {position} {problem}"))
        else:
            positions.setdefault(data, []).append(position)
    if errors:
        return errors
    if not positions:
        return [fe.invalid(_BUNDLE, _OMITTED, "at least one trust anchor must be provided")]
    for found in positions.values():
        if len(found) > 1:
            shown_positions = " ".join(map(str, found))
            text = f"duplicate trust anchor (indices [{shown_positions}])"
            errors.append(fe.invalid(_BUNDLE, _OMITTED, text))
    return errors


def _authority(block: PEMBlock) -> tuple[bytes, str]:
    """Return the certificate (DER) of a block, and why it is not one of an authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        certificate = x509.load_pem_x509_certificate(block.text.encode())
        extensions = certificate.extensions
    except ValueError:
        return b"", "does not parse as X.509"
    try:
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    return certificate.public_bytes(Encoding.DER), "" if is_authority else "does not have the CA bit set"


KINDS = {
    "clustertrustbundles": Kind(
        validate=_errors,
        validate_update=_update_errors,
        validate_name=lambda name, prefix=False: [],
        allow_unconditional_update=False,
        rechecks_metadata=True,
        field_selectors={"spec.signerName": "spec.signerName"},
        columns=(column("SignerName", shown("spec.signerName", NONE), description="Signer of the bundle."),),
    ),
}
