"""Stage objects of kwok (`kwok.x-k8s.io/v1alpha1`): transitions of objects that users declare.

A Stage that matches a pod of a simulated node replaces the built-in behaviour of that pod as long as it
matches. Stages for other kinds apply to all objects of the kind.

- `stage`: selectors, delays and steps of a Stage; `jq_paths`: their expressions
- `go_templates`: the templates of steps, a subset of Go's text/template
- `engine`: watches Stages and objects, and applies them
"""
