"""The public names of `kubewright.api`."""

import kubewright.api as api


def test_public_callables_have_docstrings() -> None:
    for name in api.__all__:
        value = getattr(api, name)
        if callable(value):
            assert value.__doc__, name
