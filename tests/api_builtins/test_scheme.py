from __future__ import annotations

import subprocess
import sys

import pytest

from kubewright.api.apps.v1 import Deployment, DeploymentList
from kubewright.api.declaring.declarations import resource
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.meta import (
    APIStatus,
    CustomResource,
    MetaObject,
    ObjectList,
    ObjectMeta,
    PartialObjectMetadata,
)
from kubewright.api.objects import Spec, Status
from kubewright.api.scheme import Scheme, SchemeError, UnknownKindError


class BookSpec(Spec):
    size: int | None = None


class BookStatus(Status):
    ready: bool | None = None


@resource(group="library.example.com", version="v1", scope="Cluster", storage=True)
class Book(CustomResource[BookSpec, BookStatus]):
    """A book."""


@resource(group="library.example.com", version="v1beta1", kind="Book", hub=True)
class OldBook(CustomResource[BookSpec, BookStatus]):
    """A book as it was."""


@resource(group="library.example.com", version="v1", kind="Book")
class OtherBook(CustomResource[BookSpec, BookStatus]):
    """A second claim to the same kind."""


@resource(group="library.example.com", version="v2", kind="Book", hub=True)
class NewBook(CustomResource[BookSpec, BookStatus]):
    """A second hub."""


BOOK = GroupVersionKind("library.example.com", "v1", "Book")


def test_types_by_kind_and_kinds_by_type() -> None:
    scheme = Scheme(Book)
    assert scheme.type_for(BOOK) is Book
    assert scheme.gvk_of(Book) == BOOK
    assert scheme.gvk_of(Book(spec=BookSpec())) == BOOK
    assert BOOK in scheme
    scheme.register(Book)
    assert scheme.info_of(Book).plural == "books"
    assert scheme.info_of(BOOK).scope == "Cluster"


def test_second_type_of_a_kind_is_an_error() -> None:
    scheme = Scheme(Book)
    with pytest.raises(
        SchemeError, match=r"Book is already registered as .*\.Book; cannot register .*\.OtherBook"
    ):
        scheme.register(OtherBook)
    assert scheme.type_for(BOOK) is Book

    class FakeDeployment(MetaObject):
        gvk = GroupVersionKind("apps", "v1", "Deployment")

    with pytest.raises(SchemeError, match=r"already registered as kubewright\.api\.apps\.v1\.Deployment"):
        scheme.register(FakeDeployment)
    assert Scheme(FakeDeployment, builtins=False).type_for(FakeDeployment.gvk) is FakeDeployment


def test_type_without_a_kind_is_an_error() -> None:
    class Nameless(MetaObject):
        pass

    with pytest.raises(SchemeError, match="Nameless has no kind"):
        Scheme(Nameless)
    with pytest.raises(SchemeError, match="Nameless has no kind"):
        Scheme().gvk_of(Nameless)


def test_decorator() -> None:
    scheme = Scheme()

    @scheme.add
    class Shelf(MetaObject):
        gvk = GroupVersionKind("library.example.com", "v1", "Shelf")

    assert scheme.type_for(Shelf.gvk) is Shelf


def test_versions_and_hub() -> None:
    scheme = Scheme(OldBook, Book)
    kind = GroupKind("library.example.com", "Book")
    assert scheme.versions(kind) == ("v1", "v1beta1")
    assert scheme.hub(kind).version == "v1beta1"
    assert Scheme(Book).hub(kind) == BOOK
    assert Scheme(OtherBook).hub(kind) == BOOK
    with pytest.raises(SchemeError, match="two hub or storage versions: v2 and v1beta1"):
        Scheme(OldBook, NewBook).hub(kind)
    with pytest.raises(UnknownKindError):
        Scheme().hub(kind)


def test_builtins() -> None:
    scheme = Scheme()
    gvk = GroupVersionKind("apps", "v1", "Deployment")
    assert scheme.type_for(gvk) is Deployment
    assert scheme.list_type_for(gvk) is DeploymentList
    assert scheme.item_kind_of(gvk.list_kind()) == gvk
    assert scheme.item_kind_of(gvk) is None
    assert scheme.versions(GroupKind("autoscaling", "HorizontalPodAutoscaler")) == ("v2", "v1")
    info = scheme.info_of(Deployment)
    assert (info.plural, info.singular, info.scope) == ("deployments", "deployment", "Namespaced")
    assert info.status
    assert info.scale is not None
    assert scheme.type_for(GroupVersionKind("", "v1", "Status")) is APIStatus
    assert scheme.find(GroupVersionKind("", "v1", "PodSpec")) is None
    assert scheme.find(GroupVersionKind("apps", "v9", "Deployment")) is None
    assert gvk not in Scheme(builtins=False)
    with pytest.raises(UnknownKindError, match="no type is registered for apps/v1, Kind=Guestbook"):
        scheme.type_for(GroupVersionKind("apps", "v1", "Guestbook"))
    with pytest.raises(SchemeError, match="has no known resource"):
        scheme.info_of(APIStatus)


def test_lists_of_custom_resources() -> None:
    scheme = Scheme(Book)
    assert scheme.list_type_for(BOOK) == ObjectList[Book]
    assert scheme.list_type_for(Book) is scheme.list_type_for(BOOK)


def test_unstructured_objects() -> None:
    scheme = Scheme()
    assert scheme.gvk_of({"apiVersion": "a.example.com/v1", "kind": "A"}) == GroupVersionKind(
        "a.example.com", "v1", "A"
    )
    partial = PartialObjectMetadata(api_version="apps/v1", kind="Deployment", metadata=ObjectMeta(name="x"))
    assert scheme.gvk_of(partial) == GroupVersionKind("apps", "v1", "Deployment")
    with pytest.raises(SchemeError, match="no apiVersion or kind"):
        scheme.gvk_of({"metadata": {}})


def test_built_in_modules_are_imported_at_first_use() -> None:
    program = (
        "import sys\n"
        "from kubewright.api.scheme import Scheme\n"
        "from kubewright.api.gvk import GroupVersionKind\n"
        "scheme = Scheme(); list(scheme); scheme.info_of(GroupVersionKind('apps', 'v1', 'Deployment'))\n"
        "assert 'kubewright.api.apps.v1' not in sys.modules\n"
        "scheme.type_for(GroupVersionKind('batch', 'v1', 'Job'))\n"
        "assert 'kubewright.api.batch.v1' in sys.modules\n"
        "assert 'kubewright.api.apps.v1' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
