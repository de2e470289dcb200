"""Kinds of the API group admissionregistration.k8s.io: webhook configurations and admission policies.

- `bindings`: ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding
- `matching`: parts that webhook configurations and admission policies share: match rules, match conditions,
  CEL
- `policies`: ValidatingAdmissionPolicy and MutatingAdmissionPolicy
- `webhooks`: ValidatingWebhookConfiguration and MutatingWebhookConfiguration
"""
