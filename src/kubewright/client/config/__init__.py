"""Cluster configuration: kubeconfig files, in-cluster service accounts, credentials that renew themselves."""
