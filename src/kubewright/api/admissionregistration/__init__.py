"""Built-in types of the `admissionregistration.k8s.io` group."""
