"""Certificates and keys of a control plane.

- `credentials`: credentials of a control plane: certificate authorities, certificates, the signing key of
  tokens
- `plane_credentials`: the certificates and keys that a control plane uses for itself
"""
