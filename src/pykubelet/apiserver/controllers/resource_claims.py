"""Claims on devices come from templates with the pods that need them, and go with them; who has ended gives back what
he had reserved, and with the last of them the devices are free."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from pykubelet.api.rules.pod_claims import PodClaim, pod_claims
from pykubelet.apiserver.controllers import resource_claim_rules as rules
from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.workloads.ownership import belongs_to
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event

DEVICE_CLAIMS: Final[Kind] = ("resource.k8s.io", "resourceclaims")
TEMPLATES: Final[Kind] = ("resource.k8s.io", "resourceclaimtemplates")
_CLAIMS: Final = b'"resourceClaims":'

Claims = dict[tuple[str, str], Object]


def claimant(pod: Object) -> Object | None:
    """The pod, if it claims devices."""
    return pod if at(pod, "spec.resourceClaims") else None


class ResourceClaims:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._pods = client.resource(PODS).prefix
        self._events = EventRecorder(client, "resource_claim")

    async def run(self) -> None:
        await self._client.follow(self.sync, PODS, DEVICE_CLAIMS, TEMPLATES, wanted=self._matters)

    def _matters(self, event: Event) -> bool:
        """Most pods claim no devices."""
        if not event.key.startswith(self._pods):
            return True
        return _CLAIMS in event.value or (event.previous is not None and _CLAIMS in event.previous)

    async def sync(self) -> None:
        client = self._client
        pods = [pod for pod in await client.views(PODS, claimant) if pod is not None]
        if not pods and not await client.entries(DEVICE_CLAIMS):
            return
        claims = {_key(each): each for each in await client.all(DEVICE_CLAIMS)}
        made = {rules.made_for(each): each["metadata"]["name"] for each in reversed(claims.values())}
        for pod in pods:
            if not at(pod, "metadata.deletionTimestamp") and not rules.is_done(pod):
                with client.apart(f"pod {'/'.join(_key(pod))}"):
                    await self._provide(pod, claims, made)
                    await self._reserve(pod, claims)
        known = {_key(pod): pod for pod in pods}
        for claim in await client.all(DEVICE_CLAIMS):
            with client.apart(f"claim {'/'.join(_key(claim))}"):
                await self._tidy(claim, known)

    # --- for pods

    async def _provide(self, pod: Object, claims: Claims, there: Mapping[tuple[str, str, str], str]) -> None:
        """`there` are the names of claims that were made, by pod and by what it calls them."""
        made: dict[str, str] = {}
        for wanted in pod_claims(pod):
            if not wanted.template or not (wanted.claim or wanted.is_awaited):
                continue
            known = claims.get((pod["metadata"]["namespace"], wanted.claim))
            if known is not None and belongs_to(known, pod):
                continue
            name = there.get((pod["metadata"]["namespace"], pod["metadata"]["uid"], wanted.name))
            try:
                made[wanted.name] = name or await self._claim_for(pod, wanted, claims)
            except ApiError as error:
                text = f"PodResourceClaim {wanted.name}: {error.message}"
                await self._events.record(pod, "Warning", "FailedResourceClaimCreation", text)
                break
        if made:
            await self._client.change(PODS, pod, partial(rules.named, made=made), part="status")

    async def _claim_for(self, pod: Object, wanted: PodClaim, claims: Claims) -> str:
        """The name of the claim that is made for the pod. Raises ApiError."""
        template = await self._client.known(TEMPLATES, pod["metadata"]["namespace"], wanted.template)
        if template is None:
            missing = f'resource claim template "{wanted.template}": '
            missing += f'resourceclaimtemplate.resource.k8s.io "{wanted.template}" not found'
            raise ApiError(404, "NotFound", missing)
        try:
            claim = await self._client.make(DEVICE_CLAIMS, rules.claim_for(pod, wanted, template))
        except ApiError as error:
            raise ApiError(error.code, error.reason, f"create ResourceClaim : {error.message}") from None
        claims[_key(claim)] = claim
        return str(claim["metadata"]["name"])

    async def _reserve(self, pod: Object, claims: Claims) -> None:
        """For a pod that has its node from somebody who knows nothing of claims."""
        for wanted in pod_claims(pod) if at(pod, "spec.nodeName") else ():
            claim = claims.get((pod["metadata"]["namespace"], wanted.claim))
            if claim is None or (wanted.template and not belongs_to(claim, pod)):
                continue
            if rules.reserved_for(claim, pod) is not None:
                how = partial(rules.reserved_for, pod=pod)
                await self._client.change(DEVICE_CLAIMS, claim, how, part="status")

    # --- for claims

    async def _tidy(self, claim: Object, pods: Claims) -> None:
        client, namespace = self._client, claim["metadata"]["namespace"]
        users = at(claim, "status.reservedFor", ())
        if any(each.get("apiGroup") or each.get("resource") != "pods" for each in users):
            return  # others than pods use it: nobody here knows when they have done
        gone = [each["uid"] for each in users if await self._is_gone(namespace, each, pods)]
        now = claim
        if rules.left_by(claim, gone) is not None:
            changed = await client.change(DEVICE_CLAIMS, claim, partial(rules.left_by, gone=gone), part="status")
            if changed is None:
                return
            now = changed
        if (now is not claim or at(now, "metadata.deletionTimestamp")) and rules.let_go(now) is not None:
            await client.change(DEVICE_CLAIMS, now, rules.let_go)
        if len(gone) == len(users):
            await self._discard(now, pods)

    async def _is_gone(self, namespace: str, user: Object, pods: Claims) -> bool:
        pod = pods.get((namespace, user["name"]))
        if pod is None or at(pod, "metadata.uid") != user["uid"]:
            pod = await self._client.find(PODS, namespace, user["name"])  # it may be newer than what we have seen
        return pod is None or at(pod, "metadata.uid") != user["uid"] or rules.is_done(pod)

    async def _discard(self, claim: Object, pods: Claims) -> None:
        """One that was made for a pod that has ended; when the pod itself is gone, the garbage collector sees to it."""
        name, uid = rules.owner_of(claim)
        pod = pods.get((claim["metadata"]["namespace"], name)) if name else None
        if pod is None or at(claim, "metadata.deletionTimestamp"):
            return
        if at(pod, "metadata.uid") != uid or rules.is_done(pod):
            await self._client.remove(DEVICE_CLAIMS, claim)


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
