"""Built-in types of the `flowcontrol.apiserver.k8s.io` group."""
