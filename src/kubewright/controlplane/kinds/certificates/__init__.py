"""Kinds of the API group certificates.k8s.io: requests for certificates, and trust anchors.

- `certificate_signing_request`: CertificateSigningRequest
- `cluster_trust_bundle`: ClusterTrustBundle: trust anchors of a signer, or of the whole cluster
- `pem`: PEM blocks of a text
- `pod_certificate_request`: PodCertificateRequest: a kubelet requests a certificate for a pod
- `signers`: names of signers, names of their trust bundles, lifetimes of their certificates for pods
"""
