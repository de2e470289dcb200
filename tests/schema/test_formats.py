"""String formats, and the edges where Kubernetes is lenient or strict."""

from __future__ import annotations

import pytest

from kubewright.schema.validation.formats import checker, known

GOOD = {
    "bsonobjectid": ["507f1f77bcf86cd799439011"],
    "uri": ["https://example.com/a?b#c", "/just/a/path", "urn:isbn:1", "http://[::1]:80/"],
    "email": ["a@b", "Bob <bob@example.com>", '"quoted name"@example.com', "pelé@example.com"],
    "hostname": ["example.com", "a", "xn--bcher-kva.example"],
    "ipv4": ["1.2.3.4", "001.002.003.004", "::ffff:1.2.3.4"],
    "ipv6": ["::1", "2001:db8::"],
    "cidr": ["10.0.0.0/8", "10.1.2.3/8", "2001:db8::/32"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab"],
    "uuid": ["A987FBC9-4BED-3078-CF07-9141BA07C9F3", "a987fbc94bed3078cf079141ba07c9f3"],
    "uuid3": ["A987FBC9-4BED-3078-CF07-9141BA07C9F3"],
    "uuid4": ["57B73598-8764-4AD0-A76A-679BB6640EB1"],
    "uuid5": ["987FBC97-4BED-5078-AF07-9141BA07C9F3"],
    "isbn": ["0321751043", "978-0321751041"],
    "isbn10": ["0-321-75104-3", "080442957X"],
    "isbn13": ["978 0321751041"],
    "creditcard": ["4111 1111 1111 1111"],
    "ssn": ["111-22-3333", "111 22 3333"],
    "hexcolor": ["#FFFFFF", "abc"],
    "rgbcolor": ["rgb(0, 31, 255)"],
    "byte": ["YQ==", "YWJj"],
    "password": ["anything", ""],
    "date": ["2024-02-29", "0000-01-01"],
    "duration": ["1h30m", "22 ns", "3 weeks", "-1.5s"],
    "date-time": ["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
    "k8s-short-name": ["abc-1"],
    "k8s-long-name": ["abc.def-1"],
}
BAD = {
    "bsonobjectid": ["507f1f77"],
    "uri": ["", "relative/path", "http://a b/", "https://example.com/%zz"],
    "email": ["a", "a@", "@b", "a b@c"],
    "hostname": ["-a", "a..b", "a_b.com", "a" * 64],
    "ipv4": ["1.2.3", "1.2.3.256", "::1", "1.2.3.4\n"],
    "ipv6": ["1.2.3.4", "fe80::1%eth0", ":::"],
    "cidr": ["1.2.3.4", "1.2.3.4/33", "1.2.3.4/-1"],
    "mac": ["01:23:45", "01:23-45:67:89:ab"],
    "uuid": ["nope"],
    "uuid4": ["A987FBC9-4BED-3078-CF07-9141BA07C9F3"],
    "isbn10": ["0321751044"],
    "isbn13": ["9780321751042"],
    "creditcard": ["4111 1111 1111 1112"],
    "ssn": ["111223333"],
    "hexcolor": ["#FFFF"],
    "rgbcolor": ["rgb(0, 31, 256)"],
    "byte": ["", "***", "YQ=", "YQ==\n"],
    "date": ["2023-02-29", "2023-2-1", "\u0662023-01-01"],
    "duration": ["soon", "", "1"],
    "date-time": ["2014-12-15", "2014-12-15T24:30:20Z", "2014-12-15T19:30:20"],
    "k8s-short-name": ["a.b", "A", "a" * 64],
    "k8s-long-name": ["A.b", ".a"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_accepted(name: str, text: str) -> None:
    check = checker(name)
    assert check is not None
    assert check(text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_rejected(name: str, text: str) -> None:
    check = checker(name)
    assert check is not None
    assert not check(text)


def test_formats_belong_to_types() -> None:
    assert known("string", "date-time")
    assert known("", "uuid")
    assert known("integer", "int32")
    assert not known("integer", "date")
    assert not known("number", "int32")
    assert not known("string", "colour")
    assert checker("colour") is None
