"""All who have a word in what is written, in the order in which they are asked."""

from pykubelet.apiserver.admission.client import Fault, WebhookClient
from pykubelet.apiserver.admission.pod_security import PodSecurity
from pykubelet.apiserver.admission.policies import ValidatingPolicies
from pykubelet.apiserver.admission.webhooks import Webhooks
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.admission import Attempt, Mutation
from pykubelet.apiserver.schema.resources import Resource


class AdmissionChain:
    def __init__(self, backend: Backend, fault: Fault | None = None) -> None:
        """`fault`: why an endpoint of a service may not be called."""
        self.client = WebhookClient(backend, fault) if fault is not None else WebhookClient(backend)
        self._webhooks = Webhooks(backend, self.client)
        self._pod_security = PodSecurity(backend)
        self._policies = ValidatingPolicies(backend)
        without = backend.settings.without_admission
        self._mutates = "MutatingAdmissionWebhook" not in without
        self._asks_validators = "ValidatingAdmissionWebhook" not in without
        self._secures = "PodSecurity" not in without
        self._asks_policies = "ValidatingAdmissionPolicy" not in without

    async def close(self) -> None:
        await self.client.close()

    def waits(self, resource: Resource) -> bool:
        return self._webhooks.waits(resource)

    def asks(self, resource: Resource, *, mutating: bool) -> bool:
        if mutating:
            return self._mutates and self._webhooks.has_any(mutating=True)
        return (
            (self._secures and PodSecurity.cares_for(resource))
            or (self._asks_policies and self._policies.has_any())
            or (self._asks_validators and self._webhooks.has_any(mutating=False))
        )

    async def mutate(self, attempt: Attempt) -> Mutation | None:
        return await self._webhooks.mutate(attempt) if self._mutates else None

    async def mutate_again(self, attempt: Attempt, before: Mutation) -> Object:
        return await self._webhooks.mutate_again(attempt, before)

    async def validate(self, attempt: Attempt) -> None:
        if self._secures:
            await self._pod_security.validate(attempt)
        if self._asks_policies:
            await self._policies.validate(attempt)
        if self._asks_validators:
            await self._webhooks.validate(attempt)
