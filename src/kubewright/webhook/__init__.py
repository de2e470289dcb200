"""Webhooks that the API server calls: admission, conversion and other extension points.

    server = WebhookServer(CertificateFiles("tls.crt", "tls.key"))
    server.add_admission("/mutate-shop", Defaulter(Shop, set_defaults))
    server.add_admission("/validate-shop", Validator(Shop, validate))
    manager.add(server)

- `review`: `AdmissionReview` requests and responses; `admission`: defaulting and validating of typed objects
- `conversion`: conversion between the versions of a kind, through a hub version; `conversion_rules`: rules
  for fields instead of code
- `identity`: token reviews and subject access reviews; `scheduler_extender`; `audit`: audit events
- `certificates`: serving certificates from files, from a managed CA in a Secret, or self-signed
- `server`: the HTTPS server
- `conversion_checks`: checks of a converter with examples of all fields of all versions, before any object is
  converted
- `preserved_fields`: fields that a version cannot represent, stored in an annotation of the converted object
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
