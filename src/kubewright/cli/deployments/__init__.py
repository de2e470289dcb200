"""Commands that bring a project to a cluster, and package it.

- `apply`: `kubewright apply`: applies manifests to a cluster, as `kubectl apply --server-side`
- `build_installer`: `kubewright build-installer`: writes one file with everything to deploy an operator
- `bundle`: `kubewright bundle`: writes a bundle for the Operator Lifecycle Manager
- `bundle_validate`: `kubewright bundle validate`: checks a bundle
- `deploy`: `kubewright deploy`: deploys an operator to a cluster
- `helm`: `kubewright helm`: writes a Helm chart of an operator
- `install`: `kubewright install`: installs the CRDs of a project
- `undeploy`: `kubewright undeploy`: removes an operator from a cluster
- `uninstall`: `kubewright uninstall`: removes the CRDs of a project
"""
