"""Quantities: parsing, canonical form, arithmetic."""

import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.api.encoding.codec import decode, encode
from kubewright.api.objects import Struct
from kubewright.api.values.quantity import Quantity, QuantityError

CANONICAL = {
    "0": "0", "0.0": "0", "-0": "0", "1": "1", "1000": "1k", "1500": "1500", "0.5": "500m",
    "1.5": "1500m", "0.001": "1m", "1000m": "1", "0.1n": "1n", "100n": "100n", "1000n": "1u",
    "1.5Gi": "1536Mi", "1024Mi": "1Gi", "1Ki": "1Ki", "512Ki": "512Ki", "0.5Ki": "512", "1e3": "1e3",
    "12e5": "1200e3", "1E3": "1E3", "1e-3": "1e-3", "1e-12": "1e-9", "8Ei": "9223372036854775807",
    "7Ei": "7Ei", "1E": "1E", "1000E": "1000E", "-1.5": "-1500m", "-1024Ki": "-1Mi", "+5": "+5",
    "1.500": "1.500", "100.035k": "100.035k", "1.1Ki": "1126400m", "0.0001Ki": "102400u",
    "1.23456789012": "1234567891n", "-0.1n": "-1n",
}  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), CANONICAL.items())
def test_canonical_form_of_kubernetes(text: str, printed: str) -> None:
    assert str(Quantity(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1i",
        "1.1.M",
        "aoeu",
        "0.1mi",
        ".5i",
        "1e",
        "1e-",
        "1+1.0M",
        "-3.01i",
        "1e999999",
        "\uff11",
        "\n",
    ],
)
def test_malformed_text(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity(text)
    assert repr(text) in str(caught.value)


def test_error_messages_of_kubernetes() -> None:
    with pytest.raises(QuantityError, match=r"^quantities must match the regular expression"):
        Quantity("x1")
    with pytest.raises(QuantityError, match=r"^unable to parse quantity's suffix"):
        Quantity("1i")
    with pytest.raises(QuantityError, match=r"^unable to parse numeric part"):
        Quantity("1" * 100_000)


def test_arithmetic_keeps_the_format() -> None:
    assert str(Quantity("1Gi") + Quantity("512Mi")) == "1536Mi"
    assert str(Quantity("1Gi") - Quantity("1")) == "1073741823"
    assert str(Quantity("0") + Quantity("1Ki")) == "1Ki"
    assert str(Quantity("1e3") + Quantity("1")) == "1001"
    assert str(Quantity("1") + Quantity("1Ki")) == "1025"
    assert str(-Quantity("1Ki")) == "-1Ki"
    assert str(Quantity("100m") * 3) == "300m"
    assert str(3 * Quantity("100m")) == "300m"
    assert str(Quantity("1Gi") * 0.5) == "512Mi"
    assert str(Quantity("1") * Fraction(1, 3)) == "333333334n"
    assert str(sum([Quantity("250m")] * 4)) == "1"
    assert str(2 - Quantity("500m")) == "1500m"
    assert str(Quantity("1024").with_format("BinarySI")) == "1Ki"


def test_create_from_numbers() -> None:
    assert str(Quantity(5)) == "5"
    assert str(Quantity(0.1)) == "100m"
    assert str(Quantity(Decimal("2.5"))) == "2500m"
    assert Quantity(Fraction(1, 3)).nanos == 333_333_334
    assert Quantity(Quantity("1Gi")) == Quantity("1Gi")
    for wrong in (float("nan"), float("inf"), True):
        with pytest.raises(QuantityError):
            Quantity(wrong)
    with pytest.raises(TypeError):
        Quantity([1])  # type: ignore[arg-type]


def test_as_numbers_round_up() -> None:
    assert Quantity("1.5").as_int() == 2
    assert Quantity("-1.5").as_int() == -2
    assert Quantity("1.5").as_int(-3) == 1500
    assert Quantity("1").as_int(-12) == 10**12
    assert int(Quantity("2Ki")) == 2048
    assert float(Quantity("250m")) == 0.25
    assert Quantity("1e500").as_approximate_float() == float("inf")
    assert Quantity("1.5").as_fraction() == Fraction(3, 2)


def test_equality_and_hash() -> None:
    assert Quantity("1000m") == Quantity("1") == Quantity("1e0")
    assert len({Quantity("1Ki"), Quantity("1024"), Quantity("1024000m")}) == 1
    assert Quantity("1") != 1
    assert Quantity("1") < Quantity("1Ki") <= Quantity("1Ki")
    assert not Quantity("0")
    assert Quantity("1n")
    assert abs(Quantity("-2")) == Quantity("2")


def test_immutable() -> None:
    quantity = Quantity("1.500")
    with pytest.raises(AttributeError):
        quantity.nanos = 1
    assert copy.deepcopy(quantity) is quantity
    again = pickle.loads(pickle.dumps(quantity))
    assert again == quantity
    assert str(again) == "1.500"
    assert repr(quantity) == "Quantity('1.500')"


class Resources(Struct):
    cpu: Quantity | None = None


def test_encoded_as_text_and_decoded_from_numbers() -> None:
    assert encode(Resources(cpu=Quantity("0.5"))) == b'{"cpu":"500m"}'
    assert decode(b'{"cpu":2}', Resources).cpu == Quantity("2")
    assert decode(b'{"cpu":0.1}', Resources).cpu == Quantity("100m")
    assert decode(b'{"cpu":" 1Gi "}', Resources).cpu == Quantity("1Gi")


SUFFIXES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)} | {
    name: Fraction(1000**power) for power, name in enumerate("kMGTPE", 1)
} | {f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", 1)}  # fmt: skip

numbers = st.tuples(
    st.integers(-(10**6), 10**6), st.integers(0, 999), st.sampled_from(sorted(SUFFIXES)), st.booleans()
)


def write(number: tuple[int, int, str, bool]) -> tuple[str, Fraction]:
    whole, thousandths, suffix, with_fraction = number
    text, value = str(whole), Fraction(whole)
    if with_fraction:
        text += f".{thousandths:03d}"
        value += Fraction(thousandths if whole >= 0 else -thousandths, 1000)
    return text + suffix, value * SUFFIXES[suffix]


def rounded(value: Fraction, suffix: str) -> Fraction:
    if suffix.endswith("i"):
        limit = Fraction((1 << 63) - 1)
        value = max(-limit, min(limit, value))
    nanos = value * 10**9
    whole = -(-nanos.numerator // nanos.denominator) if nanos >= 0 else nanos.numerator // nanos.denominator
    return Fraction(whole, 10**9)


@given(numbers)
def test_parsing_is_exact(number: tuple[int, int, str, bool]) -> None:
    text, value = write(number)
    assert Quantity(text).as_fraction() == rounded(value, number[2])


@given(numbers)
def test_canonical_form_is_stable_and_keeps_the_amount(number: tuple[int, int, str, bool]) -> None:
    quantity = Quantity(write(number)[0])
    again = Quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)
    computed = quantity + Quantity(0)
    assert str(Quantity(str(computed))) == str(computed)


@given(numbers, numbers, st.integers(-50, 50))
def test_arithmetic_and_order_match_fractions(
    left: tuple[int, int, str, bool], right: tuple[int, int, str, bool], factor: int
) -> None:
    a, b = Quantity(write(left)[0]), Quantity(write(right)[0])
    x, y = a.as_fraction(), b.as_fraction()
    assert (a + b).as_fraction() == x + y
    assert (a - b).as_fraction() == x - y
    assert (a * factor).as_fraction() == x * factor
    assert (a < b, a == b, a > b) == (x < y, x == y, x > y)
    assert (hash(a) == hash(b)) or x != y


@settings(max_examples=200)
@given(st.integers(1, 10**12), st.integers(-30, 20))
def test_exponents(mantissa: int, exponent: int) -> None:
    quantity = Quantity(f"{mantissa}e{exponent}")
    assert quantity.as_fraction() == rounded(Fraction(mantissa) * Fraction(10) ** exponent, "")
    assert "e" in str(quantity) or quantity.as_fraction().denominator == 1
    printed = str(quantity + Quantity(0))
    assert "e" not in printed or int(printed.split("e")[1]) % 3 == 0
