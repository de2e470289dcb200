"""Label selectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.meta import LabelSelector, LabelSelectorRequirement
from kubewright.api.selectors.label_selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    check_label_selector,
    parse_selector,
    requirement_of,
    selector_from_labels,
    selector_of,
    to_label_selector,
)

MATCHES = [
    ("", {}, True),
    ("a=b", {"a": "b"}, True),
    ("a==b", {"a": "c"}, False),
    ("a=", {"a": ""}, True),
    ("a=", {}, False),
    ("a!=b", {}, True),
    ("a!=b", {"a": "b"}, False),
    ("a", {"a": "x"}, True),
    ("!a", {"a": "x"}, False),
    ("!a", {}, True),
    ("a in (b,c)", {"a": "c"}, True),
    ("a in (b,c)", {}, False),
    ("a notin (b,c)", {}, True),
    ("a notin (b,c)", {"a": "b"}, False),
    ("a in ()", {"a": ""}, True),
    ("a in (,b)", {"a": ""}, True),
    ("a>5", {"a": "6"}, True),
    ("a>5", {"a": "5"}, False),
    ("a<5", {"a": "x"}, False),
    ("a<5", {}, False),
    ("a > 5, b<3", {"a": "6", "b": "-1"}, True),
    ("in in (in,notin)", {"in": "notin"}, True),
    ("example.com/a=b,c", {"example.com/a": "b", "c": ""}, True),
    (" a = b ,\tc\n", {"a": "b", "c": "1"}, True),
]


@pytest.mark.parametrize(("text", "labels", "expected"), MATCHES)
def test_matches(text: str, labels: dict[str, str], expected: bool) -> None:
    selector = parse_selector(text)
    assert selector.matches(labels) is expected
    assert parse_selector(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=!", "unable to parse requirement: found '!', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)  # fmt: skip
def test_error_messages_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert str(caught.value) == message


def test_keys_and_values_are_checked() -> None:
    with pytest.raises(
        SelectorError, match=r'^unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid'
    ):
        parse_selector("a/b/c=d")
    with pytest.raises(
        SelectorError, match=r'^unable to parse requirement: values\[0\]\[a\]: Invalid value: "-"'
    ):
        parse_selector("a=-")
    with pytest.raises(SelectorError, match=r"^values: Invalid value: null: for 'in', 'notin'"):
        Requirement("a", "in")
    with pytest.raises(SelectorError, match=r'^values: Invalid value: \["b"\]: values set must be empty'):
        Requirement("a", "exists", ["b"])
    with pytest.raises(SelectorError, match=r"^values: .*exact-match compatibility"):
        Requirement("a", "=", ["b", "c"])
    with pytest.raises(
        SelectorError, match=r'^operator: Unsupported value: "~": supported values: "in", "notin"'
    ):
        Requirement("a", "~")
    with pytest.raises(SelectorError, match=r"^\[key: .*, values: .*\]$"):
        Requirement("", "in")


def test_text_form_is_sorted() -> None:
    assert str(parse_selector("c,b in (y,x),!a,d>1,e!=2,f==3,g notin (q)")) == (
        "!a,b in (x,y),c,d>1,e!=2,f==3,g notin (q)"
    )


def test_structured() -> None:
    structured = LabelSelector(
        match_labels={"a": "b"},
        match_expressions=[
            LabelSelectorRequirement(key="c", operator="In", values=["x", "y"]),
            LabelSelectorRequirement(key="d", operator="DoesNotExist"),
        ],
    )
    selector = selector_of(structured)
    assert str(selector) == "a=b,c in (x,y),!d"
    assert to_label_selector(selector) == structured
    assert selector_of(None) is NOTHING
    assert selector_of(LabelSelector()).empty
    assert to_label_selector("a!=b").match_expressions == [
        LabelSelectorRequirement(key="a", operator="NotIn", values=["b"])
    ]
    with pytest.raises(SelectorError, match='"Gt" is not a valid label selector operator'):
        selector_of(LabelSelector(match_expressions=[LabelSelectorRequirement(key="a", operator="Gt")]))
    with pytest.raises(SelectorError, match="isn't supported in label selectors"):
        to_label_selector("a>1")
    with pytest.raises(SelectorError, match="couldn't parse the selector string"):
        to_label_selector("a=b=c")
    with pytest.raises(SelectorError, match="omit the field instead"):
        to_label_selector(NOTHING)


def test_node_expressions_compare() -> None:
    assert requirement_of("cpu", "Gt", ["4"]).matches({"cpu": "8"})
    assert requirement_of("cpu", "Lt", ["4"]).matches({"cpu": "3"})
    assert not requirement_of("cpu", "Lt", ["4"]).matches({"cpu": str(1 << 64)})
    with pytest.raises(SelectorError, match='"gt" is not a valid'):
        requirement_of("cpu", "gt", ["4"])


def test_validation_of_structured_selectors() -> None:
    selector = LabelSelector(
        match_labels={"-": "ok"},
        match_expressions=[
            LabelSelectorRequirement(key="a", operator="In"),
            LabelSelectorRequirement(key="a", operator="Exists", values=["x"]),
            LabelSelectorRequirement(key="a", operator="Near", values=["!"]),
        ],
    )
    wrong = check_label_selector(selector, "spec.selector")
    assert [(error.reason, error.field) for error in wrong] == [
        ("FieldValueInvalid", "spec.selector.matchLabels"),
        ("FieldValueRequired", "spec.selector.matchExpressions[0].values"),
        ("FieldValueForbidden", "spec.selector.matchExpressions[1].values"),
        ("FieldValueInvalid", "spec.selector.matchExpressions[2].operator"),
        ("FieldValueInvalid", "spec.selector.matchExpressions[2].values[0]"),
    ]
    assert wrong[3].message == 'Invalid value: "Near": not a valid selector operator'
    assert check_label_selector(None, "x") == []


def test_combining() -> None:
    both = parse_selector("a=b") & parse_selector("c")
    assert str(both) == "a=b,c"
    assert both.exact("a") == "b"
    assert both.exact("c") is None
    assert both.exact("z") is None
    assert not (EVERYTHING & NOTHING).matches({})
    assert not (NOTHING & EVERYTHING).matches({})
    assert EVERYTHING.empty
    assert not NOTHING.empty
    assert not NOTHING.matches({})
    assert NOTHING != EVERYTHING
    assert selector_from_labels({"b": "1", "a": "2"}) == parse_selector("a=2,b=1")
    assert EVERYTHING.matches(None)
    assert not parse_selector("a").matches(None)


keys = st.sampled_from(["a", "b", "example.com/c", "in", "notin"])
values = st.sampled_from(["", "x", "y", "7", "-1", "in"])
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["exists", "!"])),
    st.builds(lambda key, op, value: Requirement(key, op, [value]), keys, st.sampled_from(["=", "==", "!="]),
              values.filter(lambda value: value != "-1")),
    st.builds(Requirement, keys, st.sampled_from(["in", "notin"]),
              st.lists(values.filter(lambda value: value != "-1"), min_size=1, unique=True)),
    st.builds(lambda key, op, value: Requirement(key, op, [str(value)]), keys, st.sampled_from(["gt", "lt"]),
              st.integers(0, 9)),
)  # fmt: skip
labels = st.dictionaries(keys, values)


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "exists":
            return value is not None
        case "!":
            return value is None
        case "=" | "==" | "in":
            return value in requirement.values
        case "!=" | "notin":
            return value not in requirement.values
    try:
        number = int(value or "")
    except ValueError:
        return False
    bound = int(requirement.values[0])
    return number > bound if requirement.operator == "gt" else number < bound


@given(st.lists(requirements, max_size=5), labels)
def test_parse_print_match(wanted: list[Requirement], labels: dict[str, str]) -> None:
    selector = Selector(wanted)
    again = parse_selector(str(selector))
    assert str(again) == str(selector)
    expected = all(holds(requirement, labels) for requirement in wanted)
    assert selector.matches(labels) is expected
    assert again.matches(labels) is expected
    assert again == selector
    assert hash(again) == hash(selector)
