"""Cron jobs: when a job is to be made, of which template, and what makes no sense."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, invalid, not_supported, required
from pykubelet.api.rules.cron_schedule import parsed
from pykubelet.api.validation.rules import not_negative, one_of
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.job_specs import fill_spec, spec_faults
from pykubelet.apiserver.strategies.pod_templates import normal_template
from pykubelet.apiserver.strategies.time_zones import zone_fault

_JOB: Final = "spec.jobTemplate.spec"
_LONGEST_NAME: Final = 52
"""A job's name has eleven letters more, and goes into a label."""


class CronJobStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        job = template.setdefault("spec", {})
        job["template"] = normal_template(job.get("template") or {}, f"{_JOB}.template")
        _fill_template(job)
        return result

    def give_status(self, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if len(obj["metadata"].get("name", "")) > _LONGEST_NAME:
            text = f"must be no more than {_LONGEST_NAME} characters"
            yield invalid("metadata.name", obj["metadata"]["name"], text)
        yield from _spec_faults(obj["spec"], None)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        if subresource != "status":
            yield from _spec_faults(obj["spec"], old["spec"])


def _fill_template(spec: dict[str, Any]) -> None:
    """Of the defaults of a job only those that its type has everywhere: the rest comes with the job itself."""
    for rule in at(spec, "podFailurePolicy.rules", ()):
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def _spec_faults(spec: dict[str, Any], old: dict[str, Any] | None) -> Iterator[FieldError]:
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    yield from _schedule_faults(schedule)
    yield from not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    if zone is not None and (old is None or old.get("timeZone") != zone) and (fault := zone_fault(zone)):
        yield invalid("spec.timeZone", zone, fault)
    yield from one_of("spec.concurrencyPolicy", spec["concurrencyPolicy"], ("Allow", "Forbid", "Replace"))
    job = dict(at(spec, "jobTemplate.spec", {}))
    if job.get("selector") is not None:
        yield invalid(f"{_JOB}.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        yield not_supported(f"{_JOB}.manualSelector", True, ("nil", "false"))
    fill_spec(job)
    yield from spec_faults(job, _JOB)
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from not_negative(f"spec.{name}", spec.get(name))


def _schedule_faults(schedule: str) -> Iterator[FieldError]:
    if not schedule:
        yield required("spec.schedule")
        return
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid("spec.schedule", schedule, text)
        return
    try:
        parsed(schedule)
    except ValueError as error:
        yield invalid("spec.schedule", schedule, str(error))
