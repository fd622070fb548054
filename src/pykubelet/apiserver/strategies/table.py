"""Which kind has which rules."""

from collections.abc import Iterable, Mapping
from typing import Final

from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.data import ConfigMapStrategy, SecretStrategy
from pykubelet.apiserver.strategies.events import EventStrategy
from pykubelet.apiserver.strategies.limit_ranges import LimitRangeStrategy
from pykubelet.apiserver.strategies.namespaces import NamespaceStrategy
from pykubelet.apiserver.strategies.others import (
    CertificateRequestStrategy,
    ClaimStrategy,
    EndpointsStrategy,
    LeaseStrategy,
    NodeStrategy,
    PriorityClassStrategy,
    RuntimeClassStrategy,
    StorageClassStrategy,
    VolumeStrategy,
)
from pykubelet.apiserver.strategies.pods import PodStrategy
from pykubelet.apiserver.strategies.services import ServiceStrategy

_OWN: Final[Mapping[tuple[str, str], type[Strategy]]] = {
    ("", "configmaps"): ConfigMapStrategy,
    ("", "endpoints"): EndpointsStrategy,
    ("", "events"): EventStrategy,
    ("", "limitranges"): LimitRangeStrategy,
    ("", "namespaces"): NamespaceStrategy,
    ("", "nodes"): NodeStrategy,
    ("", "persistentvolumeclaims"): ClaimStrategy,
    ("", "persistentvolumes"): VolumeStrategy,
    ("", "pods"): PodStrategy,
    ("", "secrets"): SecretStrategy,
    ("", "services"): ServiceStrategy,
    ("certificates.k8s.io", "certificatesigningrequests"): CertificateRequestStrategy,
    ("coordination.k8s.io", "leases"): LeaseStrategy,
    ("events.k8s.io", "events"): EventStrategy,
    ("node.k8s.io", "runtimeclasses"): RuntimeClassStrategy,
    ("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy,
    ("storage.k8s.io", "storageclasses"): StorageClassStrategy,
}


def strategies(resources: Iterable[Resource]) -> dict[Resource, Strategy]:
    return {each: _OWN.get((each.group, each.plural), Strategy)(each) for each in resources}
