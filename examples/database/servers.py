"""The database servers as a fake application, and a scenario: `kubewright explore databases:operator`."""

from __future__ import annotations

from kubewright.explore import Steps, scenario
from kubewright.testing.applications import FakeSQL

servers = FakeSQL("orders", replicas=3)


@scenario(
    applications=[servers],
    timeout=600,
    # After a fail-over another replica is the primary, and stays it.
    tolerate=["Database:status", "Service:spec.selector"],
)
async def settings(steps: Steps) -> None:
    """Create a database, and change a setting; the orders that the servers have must remain."""
    servers.load(
        "CREATE TABLE orders (id integer PRIMARY KEY, item text)",
        "INSERT INTO orders VALUES (1, 'a book')",
    )
    database = {
        "apiVersion": "data.example.com/v1",
        "kind": "Database",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": {"replicas": 3, "settings": {"currency": "EUR", "language": "en"}},
    }
    await steps.apply(database)
    await steps.advance("1m")
    patch = {"spec": {"settings": {"currency": "CHF"}}}
    await steps.patch("Database.data.example.com", "orders", patch, namespace="default")
    await steps.advance("5m")
