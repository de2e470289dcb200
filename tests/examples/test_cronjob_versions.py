"""CronJob in two versions: lossless conversion."""

import pytest
from cronjob.conversion import V1_SPELLING, converter, parts_of, text_of
from hypothesis import given
from hypothesis import strategies as st

from cronjob import make_operator, v1, v2
from kubewright.api import ObjectMeta
from kubewright.api.batch.v1 import JobSpec
from kubewright.api.conditions import set_condition
from kubewright.api.core.v1 import Container, ObjectReference, PodSpec, PodTemplateSpec
from kubewright.api.errors import Invalid
from kubewright.api.meta import Condition
from kubewright.client import merge_patch
from kubewright.webhook import lost_fields

TEMPLATE = v1.JobTemplate(
    spec=JobSpec(
        template=PodTemplateSpec(
            spec=PodSpec(containers=[Container(name="work", image="busybox")], restart_policy="OnFailure")
        )
    )
)
part = st.sampled_from(["*", "*/5", "1,2", "0", "1, 2", ""]) | st.text(max_size=6)
notes = st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=3), min_size=1)


@st.composite
def settings_of(draw):
    return {
        "suspend": draw(st.none() | st.booleans()),
        "starting_deadline_seconds": draw(st.none() | st.integers(0, 1000)),
        "concurrency_policy": draw(st.none() | st.sampled_from(v1.ConcurrencyPolicy)),
        "failed_jobs_history_limit": draw(st.none() | st.integers(0, 9)),
        "job_template": TEMPLATE,
    }


@st.composite
def statuses(draw):
    status = v1.CronJobStatus()
    if draw(st.booleans()):
        set_condition(status, Condition(type="Degraded", status="True", reason="Why", message="because"))
    if draw(st.booleans()):
        status.active = [ObjectReference(kind="Job", name="x")]
    return status


@given(
    st.sampled_from(["@hourly", "@daily", "* * * * *", "0  0 * * *", " 1 2 3 4 5 ", ""])
    | st.lists(part, min_size=5, max_size=5).map(" ".join)
    | st.text(max_size=20),
    settings_of(),
    statuses(),
    notes,
)
def test_v1_round_trip(schedule, settings, status, annotations):
    spec = v1.CronJobSpec(schedule=schedule, **settings)
    meta = ObjectMeta(name="x", uid="u", annotations=annotations, labels={"l": "m"})
    assert lost_fields(converter, v1.CronJob(metadata=meta, spec=spec, status=status)) == []


@given(st.lists(st.none() | part, min_size=5, max_size=5), settings_of(), statuses(), notes)
def test_v2_round_trip(parts, settings, status, annotations):
    names = ("minute", "hour", "day_of_month", "month", "day_of_week")
    schedule = v2.CronSchedule(**dict(zip(names, parts, strict=True)))
    spec = v2.CronJobSpec(schedule=schedule, **settings)
    meta = ObjectMeta(name="x", uid="u", annotations=annotations)
    assert lost_fields(converter, v2.CronJob(metadata=meta, spec=spec, status=status)) == []


def test_equivalent_schedules():
    assert text_of(v2.CronSchedule(minute="*/1")) == "*/1 * * * *"
    assert parts_of("*/1 * * * *") == v2.CronSchedule(minute="*/1")
    assert parts_of("@hourly") == v2.CronSchedule(minute="0")


async def test_both_versions_are_served(world):
    async with world.running(make_operator(world.now)):
        made = await world.client.create(
            v2.CronJob(
                metadata=world.meta("two", labels={"l": "m"}),
                spec=v2.CronJobSpec(
                    schedule=v2.CronSchedule(minute="*/1"), job_template=TEMPLATE, suspend=True
                ),
            )
        )
        assert made.spec.failed_jobs_history_limit == 1
        old = await world.client.get(v1.CronJob, "two")
        assert old.spec.schedule == "*/1 * * * *"
        assert (old.metadata.uid, old.metadata.labels) == (made.metadata.uid, {"l": "m"})
        seen = await world.wait_for(v2.CronJob, "two", lambda obj: obj.status and obj.status.conditions)
        assert seen.spec.schedule == v2.CronSchedule(minute="*/1")
        assert {each.type for each in seen.status.conditions} >= {"Progressing"}

        await world.client.create(
            v1.CronJob(
                metadata=world.meta("one"),
                spec=v1.CronJobSpec(schedule="@hourly", job_template=TEMPLATE, suspend=True),
            )
        )
        new = await world.client.get(v2.CronJob, "one")
        assert new.spec.schedule == v2.CronSchedule(minute="0")
        await world.client.patch(v2.CronJob, "one", merge_patch({"metadata": {"labels": {"x": "y"}}}))
        old = await world.client.get(v1.CronJob, "one")
        assert (old.spec.schedule, old.metadata.labels) == ("@hourly", {"x": "y"})
        assert V1_SPELLING not in (old.metadata.annotations or {})
        await world.client.patch(v2.CronJob, "one", merge_patch({"spec": {"schedule": {"minute": "5"}}}))
        assert (await world.client.get(v1.CronJob, "one")).spec.schedule == "5 * * * *"


async def test_v2_fields_are_validated(world):
    async with world.running(make_operator(world.now)):
        with pytest.raises(Invalid, match=r"spec\.schedule"):
            await world.client.create(
                v2.CronJob(
                    metadata=world.meta("two"),
                    spec=v2.CronJobSpec(schedule=v2.CronSchedule(hour="25"), job_template=TEMPLATE),
                )
            )
