from __future__ import annotations

import pytest

from kubewright.api.declaring.declarations import Webhook, WebhookConfiguration, resource
from kubewright.api.meta import CustomResource, LabelSelector
from kubewright.api.objects import Spec
from kubewright.manifests import DeclarationError, webhook_configurations


class ThingSpec(Spec):
    name: str


@resource(group="things.example.com", version="v1beta1")
class Thing(CustomResource[ThingSpec, None]): ...


def test_webhook_defaults_from_the_kind() -> None:
    mutating, validating = webhook_configurations([Webhook(Thing), Webhook(Thing, mutating=True)])
    assert mutating["kind"] == "MutatingWebhookConfiguration"
    assert mutating["metadata"] == {"name": "mutating-webhook-configuration"}
    assert validating["metadata"] == {"name": "validating-webhook-configuration"}
    (webhook,) = mutating["webhooks"]
    assert webhook == {
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {
                "name": "webhook-service",
                "namespace": "system",
                "path": "/mutate-things-example-com-v1beta1-thing",
            }
        },
        "failurePolicy": "Fail",
        "name": "mthing-v1beta1.things.example.com",
        "rules": [
            {
                "apiGroups": ["things.example.com"],
                "apiVersions": ["v1beta1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["things"],
            }
        ],
        "sideEffects": "None",
    }


def test_webhooks_are_sorted_and_configurations_named() -> None:
    (validating,) = webhook_configurations(
        [Webhook(Thing, name="b.example.com"), Webhook(Thing, name="a.example.com")],
        [WebhookConfiguration(mutating=False, name="mine", annotations={"inject": "ca"})],
    )
    assert [webhook["name"] for webhook in validating["webhooks"]] == ["a.example.com", "b.example.com"]
    assert validating["metadata"] == {"name": "mine", "annotations": {"inject": "ca"}}


def test_webhook_for_a_built_in_kind_at_a_url() -> None:
    ((webhook,),) = [
        made["webhooks"]
        for made in webhook_configurations(
            [
                Webhook(
                    groups=("core",),
                    versions=("v1",),
                    resources=("pods",),
                    name="pods.things.example.com",
                    url="https://example.com/pods",
                    namespace_selector=LabelSelector(match_labels={"a": "b"}),
                )
            ]
        )
    ]
    assert webhook["clientConfig"] == {"url": "https://example.com/pods"}
    assert webhook["rules"][0]["apiGroups"] == [""]
    assert webhook["namespaceSelector"] == {"matchLabels": {"a": "b"}}


@pytest.mark.parametrize(
    ("webhook", "advice"),
    [
        (Webhook(Thing, name="short"), "three parts"),
        (Webhook(Thing, timeout_seconds=0), "between 1 and 30"),
        (Webhook(Thing, verbs=("patch",)), "must be one of create"),
        (Webhook(Thing, url="https://a", path="/b"), "either path= or url="),
        (Webhook(Thing, url="http://a"), "https://"),
        (Webhook(Thing, path="b"), "slash"),
        (Webhook(Thing, side_effects="Some"), "side_effects"),  # type: ignore[arg-type]
        (Webhook(Thing, reinvocation_policy="Never"), "mutating webhooks only"),
        (Webhook(ThingSpec, name="a.b.c", path="/x"), "not declared"),  # type: ignore[arg-type]
        (Webhook(Thing, admission_review_versions=()), "admission_review_versions is empty"),
    ],
)
def test_declaration_errors(webhook: Webhook, advice: str) -> None:
    with pytest.raises(DeclarationError, match=advice) as caught:
        webhook_configurations([webhook])
    assert all(__file__ in problem.where for problem in caught.value.problems)


def test_duplicate_webhooks_and_configurations() -> None:
    with pytest.raises(DeclarationError) as caught:
        webhook_configurations(
            [Webhook(Thing), Webhook(Thing)],
            [WebhookConfiguration(mutating=False, name="a"), WebhookConfiguration(mutating=False, name="b")],
        )
    assert len(caught.value.problems) == 2
