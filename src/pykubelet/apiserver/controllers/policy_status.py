"""Says in the status of each validating admission policy what its expressions have got wrong about types."""

from typing import Any, Final

from pykubelet.apiserver.backend import LIGHT, Backend
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.objects import Object, at

POLICIES: Final[Kind] = ("admissionregistration.k8s.io", "validatingadmissionpolicies")
_WHO: Final = "validatingadmissionpolicy-status-controller"


class PolicyStatus:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        await self._client.follow(self.sync, POLICIES)

    async def sync(self) -> None:
        for policy in await self._client.all(POLICIES):
            with self._client.apart(f"policy {policy['metadata']['name']}"):
                if at(policy, "metadata.generation", 0) > at(policy, "status.observedGeneration", 0):
                    await self._look_at(policy)

    async def _look_at(self, policy: Object) -> None:
        async def found(backend: Backend) -> list[dict[str, str]]:
            # Only now: few write expressions, and what reads them takes a tenth of a second to load.
            from pykubelet.apiserver.admission.type_checking import expression_warnings

            return expression_warnings(policy["spec"], backend.resources)

        warnings = await self._client.backend.aside(_WHO, LIGHT + 1, found)  # many expressions for several types
        checked: dict[str, Any] = {"expressionWarnings": warnings} if warnings else {}
        said = {"observedGeneration": policy["metadata"]["generation"], "typeChecking": checked}

        def changed(live: Object) -> Object | None:
            if live["metadata"].get("generation") != said["observedGeneration"]:
                return None  # it is another by now, and will be looked at again
            return {**live, "status": {**(live.get("status") or {}), **said}}

        await self._client.change(POLICIES, policy, changed, part="status")
