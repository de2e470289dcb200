"""Kinds of the API group apiregistration.k8s.io: APIService.

- `api_service`: APIService
"""
