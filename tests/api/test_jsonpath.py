"""JSONPath; the expected output is that of kubectl."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.meta import MetaObject, ObjectMeta
from kubewright.api.selectors.jsonpath import MAX_LENGTH, JSONPath
from kubewright.api.selectors.jsonpath_steps import JSONPathError
from kubewright.api.unstructured import Unstructured

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "annotations": {"a.b/c": "yes", "plain": "p"},
        "labels": {"app": "x<y&z", "a": "1"},
    },
    "spec": {
        "containers": [
            {"name": "a", "image": "i:1", "ports": [{"containerPort": 80}, {"containerPort": 443}]},
            {"name": "b", "image": "i:2", "ports": []},
            {"name": "c", "image": "i:3"},
        ],
        "priority": 7,
        "hostNetwork": True,
    },
    "status": {"x": 1.5, "y": 1e30, "z": 2e-7, "n": None},
}  # fmt: skip

RENDERED = [
    ("{.metadata.name}", "web"),
    ("{$.metadata.name} {@.kind}", "web Pod"),
    (r"{.metadata.annotations.a\.b/c}", "yes"),
    (r"{.metadata.annotations['a\.b/c']}", "yes"),
    ("{.metadata.annotations['a.b/c']}", ""),
    ("{.spec.containers[*].name}", "a b c"),
    ("{.spec.containers.*.name}", "a b c"),
    ("{.spec.containers[-1].name}", "c"),
    ("{.spec.containers[-2:].name}", "b c"),
    ("{.spec.containers[0:3:2].name}", "a c"),
    ("{.spec.containers[::2].name}", "a c"),
    ("{.spec.containers[0,2].name}", "a c"),
    ("{.spec.containers[].name}", "a"),
    ("{.spec.containers[0]['name','image']}", "a i:1"),
    ("{.spec['containers'][0]['name']}", "a"),
    ('{.spec.containers[?(@.name=="b")].image}', "i:2"),
    ("{.spec.containers[?(@.name=='c')].name}", "c"),
    ("{.spec.containers[?(@['name']=='c')].name}", "c"),
    ('{.spec.containers[?(@.name!="b")].image}', "i:1 i:3"),
    ('{.spec.containers[?(@.name<"b")].name}', "a"),
    ('{.spec.containers[?(@.name>="b")].name}', "b c"),
    ("{.spec.containers[?(@.ports)].name}", "a b"),
    ("{.spec.containers[*].ports[?(@.containerPort>100)].containerPort}", "443"),
    ("{.spec.containers[?(@.missing==1)].name}", ""),
    ("{..containerPort}", "80 443"),
    ('{range .spec.containers[*]}{.name}{"\\t"}{.image}{"\\n"}{end}', "a\ti:1\nb\ti:2\nc\ti:3\n"),
    ("{range .spec.containers[*]}{.name}{range .ports[*]}{.containerPort},{end};{end}!", "a80,443,;b;c;!"),
    ("{range .spec.containers[*]}{.name}", "abc"),
    ("{range .spec.missing[*]}{.x}{end}after", "after"),
    ("pre {.kind} post", "pre Pod post"),
    ("{.metadata.labels}", '{"a":"1","app":"x\\u003cy\\u0026z"}'),
    ("{.spec.priority} {.spec.hostNetwork} {.status.n}", "7 true null"),
    ("{.status.x} {.status.y} {.status.z}", "1.5 1e+30 2e-07"),
    ("{...containerPort}", "80 443"),
    ("{.missing}", ""),
    ("{.metadata.name.deeper}", ""),
    (r"{'it\'s'}", "it's"),
    (r'{"\x41\u00e9\101"}', "AéA"),
    ("{3.5} {-1} {true}", "3.5 -1 true"),
    (".kind", ".kind"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), RENDERED)
def test_renders_as_kubectl(text: str, printed: str) -> None:
    assert JSONPath(text, allow_missing_keys=True).render(POD) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{.kind", "unclosed action"),
        ("{.spec.containers[0", "unterminated array"),
        ("{.spec.containers[a]}", "invalid array index a"),
        ('{.spec["containers"]}', 'invalid array index "containers"'),
        ("{.spec.containers[-]}", "array index - is not a number"),
        ("{.spec.containers[?(@.name=='b']}", "unterminated filter"),
        ("{.spec.containers[?(@.name)}", "unclosed array expect ]"),
        ('{.a[?(@.name=="b" && @.image=="x")]}', "unrecognized character in action: U+0026 '&'"),
        ("{....a}", "invalid multiple recursive descent"),
        ("{'abc}", "unterminated quoted string"),
        (r"{'\q'}", r"unquote string '\q' error invalid syntax"),
        ("{1.2.3}", "cannot parse number 1.2.3"),
        ("{.a|b}{|}", "unrecognized character in action: U+007C '|'"),
        ("x" * (MAX_LENGTH + 1), "the expression has 16385 characters; at most 16384 are allowed"),
        ("{range .a}" * 100, "ranges are nested more than 64 deep"),
    ],
)  # fmt: skip
def test_malformed_expressions(text: str, message: str) -> None:
    with pytest.raises(JSONPathError) as caught:
        JSONPath(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{.missing}", "missing is not found"),
        ("{.spec.containers[5]}", "array index out of bounds: index 5, length 3"),
        ("{.spec.containers[0:9]}", "array index out of bounds: index 8, length 3"),
        ("{.spec.containers[2:1]}", "starting index 2 is greater than ending index 1"),
        ("{.spec.containers[0:2:0]}", "step must be > 0"),
        ("{.kind[0]}", "string is not array or slice"),
        ("{.spec[0]}", "map[string]interface {} is not array or slice"),
        ("{foo}", "unrecognized identifier foo"),
        ("{end}", "not in range, nothing to end"),
        ("{.spec.containers[?(@.name==1)]}", "incompatible types for comparison"),
        ("{.spec.containers[?(@.ports==1)]}", "invalid type for comparison"),
        ("{.spec.containers[?(@.name<>1)]}", "unrecognized filter operator <>"),
        ("{.spec.containers[?(@.*==1)]}", "can only compare one element at a time"),
        ("{.kind[?(@.a)]}", "Pod is not array or slice and cannot be filtered"),
    ],
)
def test_expressions_that_do_not_match_the_data(text: str, message: str) -> None:
    with pytest.raises(JSONPathError) as caught:
        JSONPath(text).render(POD)
    assert str(caught.value) == message


def test_relaxed() -> None:
    for text in ("spec.priority", ".spec.priority", "{spec.priority}", "{.spec.priority}"):
        assert JSONPath.relaxed(text).values(POD) == [7]
    assert JSONPath.relaxed("").values(POD) == []
    for text in ("{.a}{.b}", "{", "."):
        with pytest.raises(JSONPathError, match="unexpected path string"):
            JSONPath.relaxed(text)


def test_values_and_first() -> None:
    path = JSONPath("{.spec.containers[*].name}")
    assert path.find(POD) == [["a", "b", "c"]]
    assert path.first(POD) == "a"
    assert JSONPath("{.nope}", allow_missing_keys=True).first(POD, "default") == "default"
    assert repr(path) == "JSONPath('{.spec.containers[*].name}')"


def test_typed_and_unstructured_objects() -> None:
    assert JSONPath("{.kind}").render(Unstructured(POD)) == "Pod"
    assert (
        JSONPath("{.metadata.generateName}").render(MetaObject(metadata=ObjectMeta(generate_name="x-")))
        == "x-"
    )


def test_number_of_results_is_limited() -> None:
    wide: list[object] = [[[0] * 100] * 100] * 200
    with pytest.raises(JSONPathError, match="more than 1000000 results"):
        JSONPath("{[*][*][*]}").find(wide)


def test_deeply_nested_data() -> None:
    deep: object = "bottom"
    for _ in range(50_000):
        deep = {"a": deep}
    assert len(JSONPath("{..a}", allow_missing_keys=True).values(deep)) == 50_000


data = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
pieces = st.sampled_from(
    ["{", "}", ".", "..", "[", "]", "[?(", ")]", "@", "$", "*", ",", ":", "'", '"', "\\", "a", "b", "-1", "0",
     "2", "==", "<", "!", "range ", "end", "true", " ", "\n", "é", "(", ")", "1.5", "&&"]
)  # fmt: skip


@given(st.lists(pieces, max_size=14).map("".join), data)
def test_arbitrary_text_only_raises_json_path_error(text: str, data: object) -> None:
    for candidate in (text, "{" + text + "}"):
        try:
            JSONPath(candidate, allow_missing_keys=True).render(data)
        except JSONPathError:
            pass
