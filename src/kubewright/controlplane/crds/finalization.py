"""Finalization of definitions: instances are deleted before their definition.

Instances are deleted without admission, because the deletion of the definition has been admitted. Instances
with finalizers remain until these are removed; meanwhile the condition Terminating reports it, and no
instance can be created. The definition is deleted after the last instance.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kubewright.api.errors import APIError, NotFound
from kubewright.api.field_errors import aggregate
from kubewright.apiserver import ResourceStore
from kubewright.apiserver.http.messages import WarningRecorder
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.rest.options import DeletionOptions
from kubewright.storage.contract import StorageError

from . import conditions
from .conditions import Definition

if TYPE_CHECKING:
    from .definitions import CustomResourceDefinitions

logger = logging.getLogger("kubewright.controlplane")

_CHECK_TIMEOUT: Final = 60.0
"""Seconds after which the definition reports instances that are not deleted."""


class Incomplete(Exception):
    """Instances remain; reason and message for the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def finalize(definitions: CustomResourceDefinitions, name: str) -> None:
    """Delete the instances of a definition that is being deleted, then the definition."""
    delay = 0.05
    while True:
        try:
            await _attempt(definitions, name)
            return
        except Incomplete as error:
            logger.info("instances of definition remain", extra={"definition": name, "reason": str(error)})
        except (APIError, StorageError) as error:
            logger.warning(
                "cannot delete definition; retrying", extra={"definition": name, "error": str(error)}
            )
        await asyncio.sleep(delay)
        delay = min(delay * 2, 30.0)


async def _attempt(definitions: CustomResourceDefinitions, name: str) -> None:
    from .strategy import CLEANUP

    def begin(crd: Definition) -> None:
        text = "CustomResource deletion is in progress"
        conditions.put(crd, "Terminating", "True", "InstanceDeletionInProgress", text)

    crd = await definitions.write_status(name, begin)
    if crd is None or CLEANUP not in (crd["metadata"].get("finalizers") or ()):
        return
    reason, message = "NeverEstablished", "resource was never established"
    if conditions.is_true(crd, "Established"):
        reason, message = "InstanceDeletionCompleted", "removed all instances"
        store = definitions.store_of(name)
        if store is None:
            reason, message = (
                "OverlappingBuiltInResource",
                "instances overlap with built-in resources in storage",
            )
        else:
            await _delete_instances(definitions, name, store)

    def end(crd: Definition) -> None:
        conditions.put(crd, "Terminating", "False", reason, message)
        metadata = crd["metadata"]
        metadata["finalizers"] = [each for each in metadata.get("finalizers") or () if each != CLEANUP]

    await definitions.write_status(name, end)


async def _delete_instances(definitions: CustomResourceDefinitions, name: str, store: ResourceStore) -> None:
    try:
        await _delete_all(store)
        # Clients and the garbage collector receive the last deletion before the resource is removed.
        await store.server.dispatcher.catch_up()
        await _wait_until_empty(definitions, store)
    except Incomplete as error:
        reason, message = error.reason, str(error)

        def fail(crd: Definition) -> None:
            conditions.put(crd, "Terminating", "True", reason, message)

        await definitions.write_status(name, fail)
        raise


async def _delete_all(store: ResourceStore) -> None:
    from .definitions import CONTROLLER

    resource = store.resource
    version = resource.version(resource.storage_version)
    assert version is not None
    options = DeletionOptions()
    problems: list[Exception] = []
    for item in (await store.storage.list(store.prefix)).items:
        namespace, _, name = item.key[len(store.prefix) :].rpartition("/")
        op = Operation(
            verb="delete",
            resource=resource,
            version=version,
            namespace=namespace,
            name=name,
            subresource="",
            user=CONTROLLER,
            dry_run=False,
            options=options.to_object(),
            request=None,
            warnings=WarningRecorder(),
        )
        try:
            await store.deleter.delete(op, options, admit=False)
        except NotFound:
            continue
        except APIError as error:
            problems.append(error)
    if problems:
        raise Incomplete("InstanceDeletionFailed", f"could not issue all deletes: {aggregate(problems)}")


async def _wait_until_empty(definitions: CustomResourceDefinitions, store: ResourceStore) -> None:
    """Wait until the informer has seen the last deletion."""
    resource = store.resource
    if not await definitions.informers.wait_until(
        resource.group, resource.plural, lambda informer: not len(informer.store), timeout=_CHECK_TIMEOUT
    ):
        raise Incomplete(
            "InstanceDeletionCheck",
            "could not confirm zero CustomResources remaining: timed out waiting for the condition",
        )
