"""What whoever makes a workload should know: what its pods will be warned of, and names that make bad host names."""

from collections.abc import Iterator, Mapping
from typing import Final

from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.verbs.pod_warnings import pod_warnings

_TEMPLATES: Final[Mapping[str, str]] = {
    "cronjobs.batch": "spec.jobTemplate.spec.template",
    **dict.fromkeys(
        (
            "daemonsets.apps",
            "deployments.apps",
            "jobs.batch",
            "replicasets.apps",
            "replicationcontrollers",
            "statefulsets.apps",
        ),
        "spec.template",
    ),
}
_NAMED_AFTER: Final = ("deployments.apps", "jobs.batch", "replicasets.apps", "replicationcontrollers")
_SURPRISE: Final = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
    "a DNS label is recommended"
)

_KEPT_FOR_EVER: Final = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)


def workload_warnings(resource: str, obj: Object) -> Iterator[str]:
    """Of a new object; `resource` as in `deployments.apps`."""
    if resource in _NAMED_AFTER and (faults := names.dns_label(obj["metadata"]["name"])):
        yield f"{_SURPRISE}: [{' '.join(faults)}]"
    path = _TEMPLATES.get(resource)
    template = at(obj, path) if path else None
    if template and template.get("spec"):
        yield from (f"{path}.{text}" for text in pod_warnings(template))
    if resource == "statefulsets.apps" and at(obj, "spec.revisionHistoryLimit", 0) < 0:
        yield _KEPT_FOR_EVER
