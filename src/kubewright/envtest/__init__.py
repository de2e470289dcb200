"""Drop-in executables for Go's envtest: `kube-apiserver` and `etcd` served by Kubewright.

    kubewright envtest --bin-dir bin/k8s
    KUBEBUILDER_ASSETS=$PWD/bin/k8s go test ./...

- `executables`: writes the executables to a directory;
- `kube_apiserver`: the API server with the flags of kube-apiserver;
- `kube_apiserver_flags`: which of these flags have an effect;
- `etcd`: the stand-in for etcd, which owns the data directory;
- `etcd_connection`: how the API server finds its store through `--etcd-servers`;
- `flags`: parser of command lines in the syntax of pflag.
"""
