"""Has an APIService for every version of a group that this server answers for itself, as `kubectl get apiservices` and
those who look for one expect.

What is built in is registered once; what custom resources bring comes and goes with them. That of metrics is nobody's:
who installs a server of metrics makes it his own, and if he removes it, it is ours again.
"""

from collections.abc import Iterable
from typing import Final

from pykubelet.apiserver.aggregation.remotes import KIND
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import Resource

CRDS: Final[Kind] = ("apiextensions.k8s.io", "customresourcedefinitions")
_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_PRIORITIES: Final = {
    "": 18_000,
    "apps": 17_800,
    "events.k8s.io": 17_750,
    "authentication.k8s.io": 17_700,
    "authorization.k8s.io": 17_600,
    "autoscaling": 17_500,
    "batch": 17_400,
    "certificates.k8s.io": 17_300,
    "networking.k8s.io": 17_200,
    "policy": 17_100,
    "rbac.authorization.k8s.io": 17_000,
    "storage.k8s.io": 16_800,
    "apiextensions.k8s.io": 16_700,
    "admissionregistration.k8s.io": 16_700,
    "scheduling.k8s.io": 16_600,
    "coordination.k8s.io": 16_500,
    "node.k8s.io": 16_300,
    "discovery.k8s.io": 16_200,
    "flowcontrol.apiserver.k8s.io": 16_100,
    "resource.k8s.io": 16_200,
    "metrics.k8s.io": 100,
}
_OF_CUSTOM: Final = 1_000
_VERSIONS: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}
_UNMANAGED: Final = "metrics.k8s.io"


class Registration:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        """Until cancelled."""
        await self._client.follow(self.sync, CRDS, KIND)

    async def sync(self) -> None:
        wanted = {each["metadata"]["name"]: each for each in local_services(self._client.resources)}
        there = await self._client.names(KIND)
        for name in wanted.keys() - there:
            await self._client.create(KIND, wanted[name])
        if len(there) > len(wanted) or there - wanted.keys():
            for each in await self._client.all(KIND):
                labels = at(each, "metadata.labels", {})
                if each["metadata"]["name"] not in wanted and labels.get(_AUTOMANAGED) == "true":
                    await self._client.remove(KIND, each)


def local_services(resources: Iterable[Resource]) -> list[Object]:
    found: dict[tuple[str, str], bool] = {}
    for each in resources:
        if each.group != KIND[0]:  # of it there is none upstream either
            found.setdefault((each.group, each.version), each.is_custom)
    return [_service(group, version, is_custom) for (group, version), is_custom in found.items()]


def _service(group: str, version: str, is_custom: bool) -> Object:
    metadata: Object = {"name": f"{version}.{group}"}
    if group != _UNMANAGED:
        metadata["labels"] = {_AUTOMANAGED: "true" if is_custom else "onstart"}
    spec = {
        "version": version,
        "groupPriorityMinimum": _PRIORITIES.get(group, _OF_CUSTOM),
        "versionPriority": 100 if is_custom or group == _UNMANAGED else _VERSIONS.get((group, version), 15),
    }
    return {"metadata": metadata, "spec": {**spec, "group": group} if group else spec}
