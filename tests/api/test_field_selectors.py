"""Field selectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.selectors.field_selectors import (
    EVERY_FIELD,
    FieldSelector,
    FieldTerm,
    field_selector,
    parse_field_selector,
)
from kubewright.api.selectors.label_selectors import SelectorError


def test_matches() -> None:
    selector = parse_field_selector("status.phase!=Running,metadata.name==web,,spec.x=")
    assert str(selector) == "metadata.name=web,spec.x=,status.phase!=Running"
    assert selector.matches({"metadata.name": "web", "status.phase": "Pending"})
    assert not selector.matches({"metadata.name": "web", "status.phase": "Running"})
    assert not selector.matches({"metadata.name": "web", "spec.x": "1"})
    assert selector.exact("metadata.name") == "web"
    assert selector.exact("status.phase") is None
    assert parse_field_selector("") == EVERY_FIELD
    assert EVERY_FIELD.empty
    assert EVERY_FIELD.matches({})


def test_escapes() -> None:
    selector = parse_field_selector(r"a=x\,y\=z\\,b=c")
    assert selector.terms == (FieldTerm("a", "x,y=z\\"), FieldTerm("b", "c"))
    assert str(selector) == r"a=x\,y\=z\\,b=c"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_error_messages_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message


def test_transform_renames_rejects_and_drops() -> None:
    def change(field: str, value: str) -> tuple[str, str]:
        if field == "gone":
            return "", ""
        if field != "name":
            raise SelectorError(f"field label not supported: {field}")
        return "metadata.name", value

    selector = parse_field_selector("name=a,gone!=b")
    assert str(selector.transform(change)) == "metadata.name=a"
    with pytest.raises(SelectorError, match="not supported: other"):
        parse_field_selector("other=1").transform(change)
    assert field_selector({"a": "b"}) & field_selector({"c": "d"}) == parse_field_selector("a=b,c=d")


terms = st.builds(
    FieldTerm, st.sampled_from(["a", "b.c"]), st.text(alphabet="x,=\\!é ", max_size=6), st.booleans()
)


@given(st.lists(terms, max_size=4))
def test_formatting_and_parsing_round_trip(wanted: list[FieldTerm]) -> None:
    selector = FieldSelector(sorted(wanted, key=str))
    assert parse_field_selector(str(selector)) == selector
