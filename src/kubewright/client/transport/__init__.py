"""Transports: how bytes reach an API server."""
