"""Chapter 7: tests of the operator."""

import pytest
from sites import Page, Site, SiteSpec, SiteSpecV2, SiteV1, converter, operator

from kubewright import Client, ObjectMeta
from kubewright.api import Invalid
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import condition
from kubewright.testing import RunningOperator
from kubewright.webhook import lost_fields

META = ObjectMeta(name="blog", namespace="default")
PAGE = '<html lang="de"><h1>Hallo</h1></html>'


# --8<-- [start:ready]
@pytest.mark.control_plane(nodes=1)
async def test_a_site_becomes_ready(client: Client, running_operator: RunningOperator) -> None:
    await running_operator(operator)
    await client.create(Site(metadata=META, spec=SiteSpecV2(pages=[Page(html=PAGE)], replicas=2)))
    site = await client.wait(Site, "blog", namespace="default", until=condition("Ready"), timeout=60)
    assert site is not None
    assert (site.status.ready_replicas, site.status.url) == (2, "http://blog.default.svc")
    assert site.spec.language == "de"


# --8<-- [end:ready]


# --8<-- [start:rejected]
async def test_text_is_rejected(client: Client, running_operator: RunningOperator) -> None:
    await running_operator(operator)
    with pytest.raises(Invalid, match="must contain HTML elements"):
        await client.create(Site(metadata=META, spec=SiteSpecV2(pages=[Page(html="hello")])))


# --8<-- [end:rejected]


# --8<-- [start:versions]
async def test_both_versions_show_the_same_object(client: Client, running_operator: RunningOperator) -> None:
    await running_operator(operator)
    await client.create(SiteV1(metadata=META, spec=SiteSpec(html=PAGE)))
    site = await client.get(Site, "blog", namespace="default")
    assert site.spec.pages == [Page(html=PAGE)]
    site.spec.pages.append(Page(name="about.html", html="<p>about</p>"))
    await client.patch(site)
    old = await client.get(SiteV1, "blog", namespace="default")
    old.spec.replicas = 3
    await client.patch(old)
    again = await client.get(Site, "blog", namespace="default")
    assert [page.name for page in again.spec.pages] == ["index.html", "about.html"]


def test_conversion_loses_nothing() -> None:
    pages = [Page(html=PAGE), Page(name="about.html", html="<p>about</p>")]
    assert lost_fields(converter, Site(metadata=META, spec=SiteSpecV2(pages=pages))) == []


# --8<-- [end:versions]


# --8<-- [start:restored]
async def test_the_page_is_restored(client: Client, running_operator: RunningOperator) -> None:
    await running_operator(operator)
    await client.create(Site(metadata=META, spec=SiteSpecV2(pages=[Page(html=PAGE)])))
    page = await client.wait(ConfigMap, "blog", namespace="default", until=lambda page: page is not None)
    assert page is not None
    await client.delete(page)
    restored = await client.wait(
        ConfigMap,
        "blog",
        namespace="default",
        until=lambda found: found is not None and found.metadata.uid != page.metadata.uid,
    )
    assert restored is not None
    assert restored.data == {"index.html": PAGE}


# --8<-- [end:restored]
