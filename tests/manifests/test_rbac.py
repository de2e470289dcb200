from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.api.declaring.declarations import Rbac
from kubewright.manifests import roles


def rules(*declared: Rbac) -> list[dict[str, list[str]]]:
    (role,) = roles(declared)
    found: list[dict[str, list[str]]] = role["rules"]
    return found


def test_verbs_of_equal_targets_are_merged() -> None:
    assert rules(
        Rbac(groups=("apps",), resources=("deployments",), verbs=("list", "get")),
        Rbac(groups=("apps",), resources=("deployments",), verbs=("watch", "get")),
    ) == [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}]


def test_resources_and_groups_of_equal_verbs_are_merged() -> None:
    assert rules(
        Rbac(groups=("apps",), resources=("deployments", "replicasets"), verbs=("get",)),
        Rbac(groups=("core",), resources=("replicasets",), verbs=("get",)),
        Rbac(groups=("core",), resources=("deployments",), verbs=("get",)),
    ) == [{"apiGroups": ["", "apps"], "resources": ["deployments", "replicasets"], "verbs": ["get"]}]


def test_names_and_urls_are_not_merged_with_others() -> None:
    assert rules(
        Rbac(groups=("core",), resources=("secrets",), verbs=("get",), resource_names=("a",)),
        Rbac(groups=("core",), resources=("secrets",), verbs=("list",)),
        Rbac(urls=("/healthz",), verbs=("get",)),
        Rbac(urls=("/metrics",), verbs=("get",)),
    ) == [
        {"nonResourceURLs": ["/healthz", "/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
        {"apiGroups": [""], "resourceNames": ["a"], "resources": ["secrets"], "verbs": ["get"]},
    ]


def test_star_replaces_other_verbs() -> None:
    assert rules(
        Rbac(groups=("apps",), resources=("deployments",), verbs=("get",)),
        Rbac(groups=("apps",), resources=("deployments",), verbs=("*",)),
    ) == [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}]


def test_roles_are_sorted_by_namespace() -> None:
    made = roles(
        [
            Rbac(groups=("core",), resources=("pods",), verbs=("get",), namespace="b"),
            Rbac(groups=("core",), resources=("pods",), verbs=("get",), namespace="a", role="other"),
            Rbac(groups=("core",), resources=("pods",), verbs=("get",)),
        ],
        "mine",
    )
    assert [(role["kind"], role["metadata"]) for role in made] == [
        ("ClusterRole", {"name": "mine"}),
        ("Role", {"name": "other", "namespace": "a"}),
        ("Role", {"name": "mine", "namespace": "b"}),
    ]


words = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)
declared = st.builds(Rbac, groups=words, resources=words, verbs=words)


@settings(max_examples=150, deadline=None)
@given(st.lists(declared, min_size=1, max_size=6), st.randoms())
def test_merging_grants_the_same_in_any_order(permissions: list[Rbac], random: object) -> None:
    def granted(rules_: list[dict[str, list[str]]]) -> set[tuple[str, str, str]]:
        return {
            (group, resource, verb)
            for rule in rules_
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    asked = {
        (group, resource, verb)
        for rule in permissions
        for group in rule.groups
        for resource in rule.resources
        for verb in rule.verbs
    }
    merged = rules(*permissions)
    assert granted(merged) == asked
    shuffled = list(permissions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rules(*shuffled) == merged
