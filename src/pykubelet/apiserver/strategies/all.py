"""Every kind that has rules of its own, in one list."""

from collections.abc import Mapping
from typing import Final

from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.strategies.admission_policies import (
    ValidatingAdmissionPolicyBindingStrategy,
    ValidatingAdmissionPolicyStrategy,
)
from pykubelet.apiserver.strategies.api_services import ApiServiceStrategy
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.certificate_signing_requests import CertificateSigningRequestStrategy
from pykubelet.apiserver.strategies.config_maps import ConfigMapStrategy
from pykubelet.apiserver.strategies.controller_revisions import ControllerRevisionStrategy
from pykubelet.apiserver.strategies.cron_jobs import CronJobStrategy
from pykubelet.apiserver.strategies.csi_drivers import (
    CsiDriverStrategy,
    CsiNodeStrategy,
    CsiStorageCapacityStrategy,
    VolumeAttachmentStrategy,
)
from pykubelet.apiserver.strategies.custom_resource_definitions import CustomResourceDefinitionStrategy
from pykubelet.apiserver.strategies.daemon_sets import DaemonSetStrategy
from pykubelet.apiserver.strategies.deployments import DeploymentStrategy
from pykubelet.apiserver.strategies.endpoint_slices import EndpointSliceStrategy
from pykubelet.apiserver.strategies.endpoints import EndpointsStrategy
from pykubelet.apiserver.strategies.events import EventStrategy
from pykubelet.apiserver.strategies.flow_control import FlowSchemaStrategy, PriorityLevelStrategy
from pykubelet.apiserver.strategies.horizontal_pod_autoscalers import HorizontalPodAutoscalerStrategy
from pykubelet.apiserver.strategies.ingresses import IngressClassStrategy, IngressStrategy
from pykubelet.apiserver.strategies.jobs import JobStrategy
from pykubelet.apiserver.strategies.leases import LeaseStrategy
from pykubelet.apiserver.strategies.limit_ranges import LimitRangeStrategy
from pykubelet.apiserver.strategies.namespaces import NamespaceStrategy
from pykubelet.apiserver.strategies.network_policies import (
    IpAddressStrategy,
    NetworkPolicyStrategy,
    ServiceCidrStrategy,
)
from pykubelet.apiserver.strategies.nodes import NodeStrategy
from pykubelet.apiserver.strategies.persistent_volume_claims import PersistentVolumeClaimStrategy
from pykubelet.apiserver.strategies.persistent_volumes import PersistentVolumeStrategy
from pykubelet.apiserver.strategies.pod_disruption_budgets import PodDisruptionBudgetStrategy
from pykubelet.apiserver.strategies.pod_templates import PodTemplateStrategy
from pykubelet.apiserver.strategies.pods import PodStrategy
from pykubelet.apiserver.strategies.priority_classes import PriorityClassStrategy
from pykubelet.apiserver.strategies.replica_sets import ReplicaSetStrategy, ReplicationControllerStrategy
from pykubelet.apiserver.strategies.resource_claims import ResourceClaimStrategy, ResourceClaimTemplateStrategy
from pykubelet.apiserver.strategies.resource_quotas import ResourceQuotaStrategy
from pykubelet.apiserver.strategies.resource_slices import DeviceClassStrategy, ResourceSliceStrategy
from pykubelet.apiserver.strategies.role_bindings import RoleBindingStrategy
from pykubelet.apiserver.strategies.roles import RoleStrategy
from pykubelet.apiserver.strategies.runtime_classes import RuntimeClassStrategy
from pykubelet.apiserver.strategies.secrets import SecretStrategy
from pykubelet.apiserver.strategies.service_accounts import ServiceAccountStrategy
from pykubelet.apiserver.strategies.services import ServiceStrategy
from pykubelet.apiserver.strategies.stateful_sets import StatefulSetStrategy
from pykubelet.apiserver.strategies.storage_classes import StorageClassStrategy, VolumeAttributesClassStrategy
from pykubelet.apiserver.strategies.webhook_configurations import WebhookConfigurationStrategy

_OWN: Final[Mapping[tuple[str, str], type[Strategy]]] = {
    ("", "configmaps"): ConfigMapStrategy,
    ("", "endpoints"): EndpointsStrategy,
    ("", "events"): EventStrategy,
    ("", "limitranges"): LimitRangeStrategy,
    ("", "namespaces"): NamespaceStrategy,
    ("", "nodes"): NodeStrategy,
    ("", "persistentvolumeclaims"): PersistentVolumeClaimStrategy,
    ("", "persistentvolumes"): PersistentVolumeStrategy,
    ("", "pods"): PodStrategy,
    ("", "podtemplates"): PodTemplateStrategy,
    ("", "replicationcontrollers"): ReplicationControllerStrategy,
    ("", "resourcequotas"): ResourceQuotaStrategy,
    ("", "secrets"): SecretStrategy,
    ("", "serviceaccounts"): ServiceAccountStrategy,
    ("", "services"): ServiceStrategy,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): WebhookConfigurationStrategy,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): ValidatingAdmissionPolicyStrategy,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): ValidatingAdmissionPolicyBindingStrategy,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): WebhookConfigurationStrategy,
    ("apiextensions.k8s.io", "customresourcedefinitions"): CustomResourceDefinitionStrategy,
    ("apiregistration.k8s.io", "apiservices"): ApiServiceStrategy,
    ("apps", "controllerrevisions"): ControllerRevisionStrategy,
    ("apps", "daemonsets"): DaemonSetStrategy,
    ("apps", "deployments"): DeploymentStrategy,
    ("apps", "replicasets"): ReplicaSetStrategy,
    ("apps", "statefulsets"): StatefulSetStrategy,
    ("autoscaling", "horizontalpodautoscalers"): HorizontalPodAutoscalerStrategy,
    ("batch", "cronjobs"): CronJobStrategy,
    ("batch", "jobs"): JobStrategy,
    ("certificates.k8s.io", "certificatesigningrequests"): CertificateSigningRequestStrategy,
    ("coordination.k8s.io", "leases"): LeaseStrategy,
    ("discovery.k8s.io", "endpointslices"): EndpointSliceStrategy,
    ("events.k8s.io", "events"): EventStrategy,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): FlowSchemaStrategy,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): PriorityLevelStrategy,
    ("networking.k8s.io", "ingressclasses"): IngressClassStrategy,
    ("networking.k8s.io", "ingresses"): IngressStrategy,
    ("networking.k8s.io", "ipaddresses"): IpAddressStrategy,
    ("networking.k8s.io", "networkpolicies"): NetworkPolicyStrategy,
    ("networking.k8s.io", "servicecidrs"): ServiceCidrStrategy,
    ("node.k8s.io", "runtimeclasses"): RuntimeClassStrategy,
    ("policy", "poddisruptionbudgets"): PodDisruptionBudgetStrategy,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): RoleBindingStrategy,
    ("rbac.authorization.k8s.io", "clusterroles"): RoleStrategy,
    ("rbac.authorization.k8s.io", "rolebindings"): RoleBindingStrategy,
    ("rbac.authorization.k8s.io", "roles"): RoleStrategy,
    ("resource.k8s.io", "deviceclasses"): DeviceClassStrategy,
    ("resource.k8s.io", "resourceclaims"): ResourceClaimStrategy,
    ("resource.k8s.io", "resourceclaimtemplates"): ResourceClaimTemplateStrategy,
    ("resource.k8s.io", "resourceslices"): ResourceSliceStrategy,
    ("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy,
    ("storage.k8s.io", "csidrivers"): CsiDriverStrategy,
    ("storage.k8s.io", "csinodes"): CsiNodeStrategy,
    ("storage.k8s.io", "csistoragecapacities"): CsiStorageCapacityStrategy,
    ("storage.k8s.io", "storageclasses"): StorageClassStrategy,
    ("storage.k8s.io", "volumeattachments"): VolumeAttachmentStrategy,
    ("storage.k8s.io", "volumeattributesclasses"): VolumeAttributesClassStrategy,
}


def strategy_for(resource: Resource) -> Strategy:
    """Of what is built in."""
    return _OWN.get((resource.group, resource.plural), Strategy)(resource)
