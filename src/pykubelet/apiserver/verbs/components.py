"""Component statuses: an old way to ask whether the parts of a control plane are well. Here they are one program."""

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.calls import Answer, Call

_NAMES = ("controller-manager", "etcd-0", "scheduler")


async def component_statuses(backend: Backend, call: Call) -> Answer:
    is_well = await backend.store.healthy()
    items = [_component(name, is_well or name != "etcd-0") for name in _NAMES]
    if not call.info.name:
        return Answer(200, {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items})
    for item in items:
        if item["metadata"]["name"] == call.info.name:
            return Answer(200, {"kind": "ComponentStatus", "apiVersion": "v1", **item})
    raise status.not_found("componentstatuses", call.info.name)


def _component(name: str, is_well: bool) -> Object:
    condition = {
        "type": "Healthy",
        "status": "True" if is_well else "False",
        "message": "ok" if is_well else "not ready",
    }
    return {"metadata": {"name": name, "creationTimestamp": None}, "conditions": [condition]}
