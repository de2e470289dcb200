"""Kinds of the API group certificates.k8s.io: CertificateSigningRequest.

- `certificate_signing_request`: CertificateSigningRequest
- `cluster_trust_bundle`: ClusterTrustBundle: trust anchors of a signer, or of the whole cluster
"""
