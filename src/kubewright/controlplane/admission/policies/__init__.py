"""Admission policies in CEL.

- `equivalents`: equivalent resources: other versions and groups under which the same objects are served
- `expressions`: CEL environments and evaluation of policy expressions
- `matching`: matching of requests by policies: rules, object selectors and namespace selectors
- `mutating_policies`: MutatingAdmissionPolicy: CEL expressions that change objects
- `policies`: common parts of validating and mutating admission policies: bindings, parameters, compiled
  expressions
- `request_value`: the admission request without its objects, for AdmissionReviews and the CEL variable
  `request`
- `validating_policies`: ValidatingAdmissionPolicy: CEL expressions that validate requests
"""
