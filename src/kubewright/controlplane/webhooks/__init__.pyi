from .client import CallError as CallError
from .client import ServiceNotResolved as ServiceNotResolved
from .client import Target as Target
from .client import WebhookClient as WebhookClient
from .dispatch import MutatingWebhooks as MutatingWebhooks
from .dispatch import ValidatingWebhooks as ValidatingWebhooks
from .resolver import DNSResolver as DNSResolver
from .resolver import ServiceResolver as ServiceResolver
