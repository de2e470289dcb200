"""Certificates and keys of a control plane.

- `credentials`: credentials of a control plane: certificate authorities, certificates, the signing key of
  tokens
- `plane_credentials`: the certificates and keys that a control plane uses for itself
- `serving_certificate`: the certificate of the API server: from `--cert-dir`, from the storage, or issued for
  its hosts
"""
