"""Encryption of stored objects: the providers and the configuration file of kube-apiserver.

- `config`: `EncryptionConfiguration`, which resources are encrypted by which providers
- `providers`: identity, AES-CBC, AES-GCM and secretbox; `kms`: keys of a KMS plug-in (v2)
- `storage`: `EncryptedStorage`, a storage whose values are encrypted in another one

Values have the form that kube-apiserver stores in etcd, `k8s:enc:PROVIDER:v1:KEY:` and the encrypted bytes,
so that keys can be rotated and providers changed with the same steps.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
