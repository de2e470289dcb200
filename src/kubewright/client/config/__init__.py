"""Cluster configuration: kubeconfig files, in-cluster service accounts, credentials that renew themselves.

- `cluster_config`: `ClusterConfig`: the address of an API server and the credentials of one user
- `credentials`: `Credentials`: request headers and TLS contexts, renewed when tokens expire and files are
  rotated
- `exec_plugin`: `ExecCredentials`: credentials from an exec plug-in (`client.authentication.k8s.io` v1 and
  v1beta1)
- `kubeconfig`: `Kubeconfig`: read and merge kubeconfig files as kubectl does
- `oidc`: `OIDCToken`: ID tokens of an OpenID Connect provider, refreshed before they expire
"""
