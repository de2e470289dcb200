"""Settings from environment variables."""

from __future__ import annotations

import pytest

from kubewright.manager import Settings


def test_variables_set_options() -> None:
    settings = Settings.from_environment(
        {
            "KUBEWRIGHT_LEADER_ELECTION": "true",
            "KUBEWRIGHT_PROBE_PORT": "8081",
            "KUBEWRIGHT_GRACEFUL_SHUTDOWN_TIMEOUT": "2.5",
            "KUBEWRIGHT_NAMESPACES": "a, b",
            "KUBEWRIGHT_WEBHOOK_HOST": "0.0.0.0",
            "OTHER": "x",
        }
    )
    assert settings.leader_election is True
    assert settings.probe_port == 8081
    assert settings.graceful_shutdown_timeout == 2.5
    assert settings.namespaces == ("a", "b")
    assert settings.webhook_host == "0.0.0.0"
    assert settings.metrics_port is None


def test_options_set_in_code_are_kept_without_variable() -> None:
    settings = Settings(graceful_shutdown_timeout=3, metrics_port=9)
    settings.update_from_environment({"KUBEWRIGHT_METRICS_PORT": "8443"})
    assert (settings.graceful_shutdown_timeout, settings.metrics_port) == (3, 8443)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("LEADER_ELECTION", "maybe", "KUBEWRIGHT_LEADER_ELECTION='maybe': expected true or false"),
        ("PROBE_PORT", "x", "expected an integer"),
        ("GRACEFUL_SHUTDOWN_TIMEOUT", "long", "expected a number of seconds"),
        ("KINDS", "pods", "cannot be set from the environment; set Settings.kinds"),
    ],
)
def test_invalid_values_are_reported_with_expected_form(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Settings.from_environment({f"KUBEWRIGHT_{name}": value})
