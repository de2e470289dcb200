"""Kinds of the API group certificates.k8s.io: CertificateSigningRequest."""
