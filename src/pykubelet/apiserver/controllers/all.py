"""Every controller of a small cluster, in one list by upstream's names: whoever runs the server says which run here."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from pykubelet.apiserver.controllers.autoscaling.autoscalers import AutoscalerController, Measure
from pykubelet.apiserver.controllers.batch.cron_jobs import CronJobController
from pykubelet.apiserver.controllers.batch.jobs import JobController
from pykubelet.apiserver.controllers.batch.ttl import TtlAfterFinished
from pykubelet.apiserver.controllers.choice import SCHEDULER, chosen
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.cluster_role_aggregation import ClusterRoleAggregation
from pykubelet.apiserver.controllers.csr import CsrController
from pykubelet.apiserver.controllers.disruption import DisruptionController
from pykubelet.apiserver.controllers.endpoint_slices import EndpointSlices
from pykubelet.apiserver.controllers.endpoints import EndpointsController
from pykubelet.apiserver.controllers.expiry import EventExpiry, RequestCleaner, TokenCleaner
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.leader_election import LeaderElection, identity
from pykubelet.apiserver.controllers.namespaces import NamespaceController
from pykubelet.apiserver.controllers.nodes import NodeLifecycle
from pykubelet.apiserver.controllers.pods import PodGarbageCollector
from pykubelet.apiserver.controllers.policy_status import PolicyStatus
from pykubelet.apiserver.controllers.protection import CLAIM, CLASS, VOLUME, Protection
from pykubelet.apiserver.controllers.resource_claims import ResourceClaims
from pykubelet.apiserver.controllers.resource_quotas import ResourceQuotaController
from pykubelet.apiserver.controllers.root_ca import RootCa
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler
from pykubelet.apiserver.controllers.service_accounts import ServiceAccountController
from pykubelet.apiserver.controllers.token_secrets import TokenSecrets
from pykubelet.apiserver.controllers.volumes.attachments import AttachDetach
from pykubelet.apiserver.controllers.volumes.binder import Provisioner, VolumeBinder
from pykubelet.apiserver.controllers.volumes.ephemeral import EphemeralVolumes
from pykubelet.apiserver.controllers.volumes.expansion import Expander
from pykubelet.apiserver.controllers.workloads.daemon_sets import DaemonSetController
from pykubelet.apiserver.controllers.workloads.deployments import DeploymentController
from pykubelet.apiserver.controllers.workloads.replica_sets import REPLICATION_CONTROLLERS, ReplicaSetController
from pykubelet.apiserver.controllers.workloads.stateful_sets import StatefulSetController
from pykubelet.apiserver.security.addresses import ClusterAddresses
from pykubelet.apiserver.security.tokens import ServiceAccountTokens
from pykubelet.apiserver.writer.author import KUBE_SCHEDULER
from pykubelet.base.tasks import Work, supervise
from pykubelet.web.authority import Authority

EVERY: Final = ("*",)
"""All controllers there are."""


class Controller(Protocol):
    async def run(self) -> None:
        """Until cancelled."""
        ...


class Means(Struct, frozen=True):
    """What controllers are made of."""

    client: ControllerClient
    authority: Authority
    addresses: ClusterAddresses
    tokens: ServiceAccountTokens
    measure: Measure
    front_proxy: str
    """The certificate of who signs what we come to other API servers with, PEM."""
    provisioner: Provisioner | None = None
    """Who makes volumes when they are wanted; None: others do."""


_CONTROLLERS: Final[Mapping[str, Callable[[Means], Controller]]] = {
    "certificatesigningrequest-approving-controller": lambda its: CsrController(
        its.client, its.authority, its.addresses, signs=False
    ),
    "certificatesigningrequest-cleaner-controller": lambda its: RequestCleaner(its.client),
    "certificatesigningrequest-signing-controller": lambda its: CsrController(
        its.client, its.authority, its.addresses, approves=False
    ),
    "clusterrole-aggregation-controller": lambda its: ClusterRoleAggregation(its.client.backend),
    "cronjob-controller": lambda its: CronJobController(its.client),
    "daemonset-controller": lambda its: DaemonSetController(its.client),
    "deployment-controller": lambda its: DeploymentController(its.client),
    "disruption-controller": lambda its: DisruptionController(its.client),
    "endpoints-controller": lambda its: EndpointsController(its.client),
    "endpointslice-controller": lambda its: EndpointSlices(its.client),
    "garbage-collector-controller": lambda its: GarbageCollector(its.client),
    "horizontal-pod-autoscaler-controller": lambda its: AutoscalerController(its.client, its.measure),
    "job-controller": lambda its: JobController(its.client),
    "namespace-controller": lambda its: NamespaceController(its.client),
    "node-lifecycle-controller": lambda its: NodeLifecycle(its.client),
    "ephemeral-volume-controller": lambda its: EphemeralVolumes(its.client),
    "persistentvolume-attach-detach-controller": lambda its: AttachDetach(its.client),
    "persistentvolume-binder-controller": lambda its: VolumeBinder(its.client, its.provisioner),
    "persistentvolume-expander-controller": lambda its: Expander(
        its.client, its.provisioner.name if its.provisioner is not None else ""
    ),
    "persistentvolume-protection-controller": lambda its: Protection(its.client, VOLUME),
    "persistentvolumeclaim-protection-controller": lambda its: Protection(its.client, CLAIM),
    "pod-garbage-collector-controller": lambda its: PodGarbageCollector(its.client),
    "replicaset-controller": lambda its: ReplicaSetController(its.client),
    "replicationcontroller-controller": lambda its: ReplicaSetController(its.client, REPLICATION_CONTROLLERS),
    "resourceclaim-controller": lambda its: ResourceClaims(its.client),
    "resourcequota-controller": lambda its: ResourceQuotaController(its.client),
    "root-ca-certificate-publisher-controller": lambda its: RootCa(
        its.client, its.authority.pem.decode(), its.front_proxy
    ),
    "serviceaccount-controller": lambda its: ServiceAccountController(its.client),
    "serviceaccount-token-controller": lambda its: TokenSecrets(its.client, its.tokens, its.authority.pem),
    "statefulset-controller": lambda its: StatefulSetController(its.client),
    "token-cleaner-controller": lambda its: TokenCleaner(its.client),
    "ttl-after-finished-controller": lambda its: TtlAfterFinished(its.client),
    "validatingadmissionpolicy-status-controller": lambda its: PolicyStatus(its.client),
    "volumeattributesclass-protection-controller": lambda its: Protection(its.client, CLASS),
}


def check_choice(wanted: Sequence[str]) -> None:
    """Raises Invalid."""
    chosen(wanted, (*_CONTROLLERS, SCHEDULER))


async def run_all(means: Means, *, wanted: Sequence[str] = EVERY, elects: bool = False) -> None:
    """Until cancelled; each starts again when it breaks. `elects`: others may have the same store, and one works."""
    names = chosen(wanted, (*_CONTROLLERS, SCHEDULER))
    client = means.client
    scheduling = ControllerClient(client.backend, KUBE_SCHEDULER)
    made = {name: make(means) for name, make in _CONTROLLERS.items() if name in names}
    works = [("kube-controller-manager", client, made)]
    if SCHEDULER in names:
        works.append((SCHEDULER, scheduling, {SCHEDULER: Scheduler(scheduling)}))
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("event expiry", EventExpiry(client).run))
        for lease, its_client, controllers in works:
            work: Work = partial(_run_together, controllers.items())
            if elects and controllers:
                work = LeaderElection(its_client, lease, identity(), work).run
            group.create_task(supervise(lease, work), name=lease)


async def _run_together(controllers: Iterable[tuple[str, Controller]]) -> None:
    async with asyncio.TaskGroup() as group:
        for name, controller in controllers:
            group.create_task(supervise(name, controller.run), name=name)
        await asyncio.Event().wait()
