"""For whom a node may have tokens made: those whom its pod gives them to, or a driver of its volumes."""

from collections.abc import Awaitable, Callable
from typing import Final

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import NODE_PREFIX
from pykubelet.apiserver.security.tokens import Find

_VERB: Final = "request-serviceaccounts-token-audience"

May = Callable[[RequestInfo], Awaitable[bool]]
"""Whether roles give the node a right."""


async def audience_fault(node: str, info: RequestInfo, audiences: list[str], pod: Object, find: Find, may: May) -> str:
    """Why the node gets no token; empty: it does."""
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    wanted = audiences[0] if audiences else ""
    unknown: list[str] = []
    for volume in at(pod, "spec.volumes", []):
        for source in at(volume, "projected.sources", []):
            if "serviceAccountToken" in source and at(source, "serviceAccountToken.audience", "") == wanted:
                return ""
        try:
            if wanted in await _of_driver(pod, volume, find):
                return ""
        except LookupError as error:
            unknown.append(str(error.args[0]))
    if unknown:
        listed = unknown[0] if len(unknown) == 1 else f"[{', '.join(unknown)}]"
        return f'error validating audience "{wanted}": {listed}'
    right = RequestInfo(
        _VERB, "", is_resource=True, version="v1", resource=wanted, namespace=info.namespace, name=info.name
    )
    if await may(right):
        return ""
    return (
        f'audience "{wanted}" not found in pod spec volume, '
        f"{NODE_PREFIX}{node} is not authorized to request tokens for this audience"
    )


async def _of_driver(pod: Object, volume: Object, find: Find) -> list[str]:
    """Those to whom the driver of a volume shows itself. Raises LookupError for an object that is not there."""
    name = at(volume, "csi.driver", "")
    claim = at(volume, "persistentVolumeClaim.claimName", "")
    if at(volume, "ephemeral.volumeClaimTemplate") is not None:
        claim = f"{pod['metadata']['name']}-{volume['name']}"
    if claim:
        found = await find("", "persistentvolumeclaims", pod["metadata"]["namespace"], claim)
        if found is None:
            raise LookupError(f'persistentvolumeclaim "{claim}" not found')
        bound = at(found, "spec.volumeName", "")
        behind = await find("", "persistentvolumes", "", bound) if bound else None
        if behind is None:
            raise LookupError(f'persistentvolume "{bound}" not found')
        name = at(behind, "spec.csi.driver", "")
    if not name:
        return []
    driver = await find("storage.k8s.io", "csidrivers", "", name)
    if driver is None:
        raise LookupError(f'csidriver.storage.k8s.io "{name}" not found')
    return [each.get("audience", "") for each in at(driver, "spec.tokenRequests", [])]
