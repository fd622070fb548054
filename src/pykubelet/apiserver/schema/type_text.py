"""The types of the API server that the agent itself has no use for, and therefore no Structs.

One line a type: its name, then its fields with their types. `*` marks an object with apiVersion, kind and metadata,
`+` one without metadata, `!` a field that must be given. `[T]` is a list, `{T}` a map; a name is a type of the same
section, of the core group or of the common ones. A line that begins with spaces goes on with the line before.
"""

from typing import Final

TEXT: Final = """
[io.k8s.api.authentication.v1]
BoundObjectReference: apiVersion string, kind string, name string, uid string
*SelfSubjectReview: status SelfSubjectReviewStatus
SelfSubjectReviewStatus: userInfo UserInfo
*TokenRequest: spec! TokenRequestSpec, status TokenRequestStatus
TokenRequestSpec: audiences! [string], boundObjectRef BoundObjectReference, expirationSeconds int64
TokenRequestStatus: expirationTimestamp! time, token! string
*TokenReview: spec! TokenReviewSpec, status TokenReviewStatus
TokenReviewSpec: audiences [string], token string
TokenReviewStatus: audiences [string], authenticated bool, error string, user UserInfo
UserInfo: extra {[string]}, groups [string], uid string, username string
[io.k8s.api.authorization.v1]
FieldSelectorAttributes: rawSelector string, requirements [FieldSelectorRequirement]
LabelSelectorAttributes: rawSelector string, requirements [LabelSelectorRequirement]
*LocalSubjectAccessReview: spec! SubjectAccessReviewSpec, status SubjectAccessReviewStatus
NonResourceAttributes: path string, verb string
NonResourceRule: nonResourceURLs [string], verbs! [string]
ResourceAttributes: fieldSelector FieldSelectorAttributes, group string, labelSelector LabelSelectorAttributes, name
  string, namespace string, resource string, subresource string, verb string, version string
ResourceRule: apiGroups [string], resourceNames [string], resources [string], verbs! [string]
*SelfSubjectAccessReview: spec! SelfSubjectAccessReviewSpec, status SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: nonResourceAttributes NonResourceAttributes, resourceAttributes ResourceAttributes
*SelfSubjectRulesReview: spec! SelfSubjectRulesReviewSpec, status SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec: namespace string
*SubjectAccessReview: spec! SubjectAccessReviewSpec, status SubjectAccessReviewStatus
SubjectAccessReviewSpec: extra {[string]}, groups [string], nonResourceAttributes NonResourceAttributes,
  resourceAttributes ResourceAttributes, uid string, user string
SubjectAccessReviewStatus: allowed! bool, denied bool, evaluationError string, reason string
SubjectRulesReviewStatus: evaluationError string, incomplete! bool, nonResourceRules! [NonResourceRule],
  resourceRules! [ResourceRule]
[io.k8s.api.certificates.v1]
*CertificateSigningRequest: spec! CertificateSigningRequestSpec, status CertificateSigningRequestStatus
CertificateSigningRequestCondition: lastTransitionTime time, lastUpdateTime time, message string, reason string,
  status! string, type! string
CertificateSigningRequestSpec: expirationSeconds int32, extra {[string]}, groups [string], request! bytes, signerName!
  string, uid string, usages [string], username string
CertificateSigningRequestStatus: certificate bytes, conditions [CertificateSigningRequestCondition]
[io.k8s.api.core.v1]
AzureFilePersistentVolumeSource: readOnly bool, secretName! string, secretNamespace string, shareName! string
*Binding: target! ObjectReference
CSIPersistentVolumeSource: controllerExpandSecretRef SecretReference, controllerPublishSecretRef SecretReference,
  driver! string, fsType string, nodeExpandSecretRef SecretReference, nodePublishSecretRef SecretReference,
  nodeStageSecretRef SecretReference, readOnly bool, volumeAttributes {string}, volumeHandle! string
CephFSPersistentVolumeSource: monitors! [string], path string, readOnly bool, secretFile string, secretRef
  SecretReference, user string
CinderPersistentVolumeSource: fsType string, readOnly bool, secretRef SecretReference, volumeID! string
ClientIPConfig: timeoutSeconds int32
ComponentCondition: error string, message string, status! string, type! string
*ComponentStatus: conditions [ComponentCondition]
EndpointAddress: hostname string, ip! string, nodeName string, targetRef ObjectReference
EndpointPort: appProtocol string, name string, port! int32, protocol string
EndpointSubset: addresses [EndpointAddress], notReadyAddresses [EndpointAddress], ports [EndpointPort]
*Endpoints: subsets [EndpointSubset]
FlexPersistentVolumeSource: driver! string, fsType string, options {string}, readOnly bool, secretRef SecretReference
GlusterfsPersistentVolumeSource: endpoints! string, endpointsNamespace string, path! string, readOnly bool
ISCSIPersistentVolumeSource: chapAuthDiscovery bool, chapAuthSession bool, fsType string, initiatorName string, iqn!
  string, iscsiInterface string, lun! int32, portals [string], readOnly bool, secretRef SecretReference, targetPortal!
  string
*LimitRange: spec LimitRangeSpec
LimitRangeItem: default {quantity}, defaultRequest {quantity}, max {quantity}, maxLimitRequestRatio {quantity}, min
  {quantity}, type! string
LimitRangeSpec: limits! [LimitRangeItem]
LoadBalancerIngress: hostname string, ip string, ipMode string, ports [PortStatus]
LoadBalancerStatus: ingress [LoadBalancerIngress]
LocalVolumeSource: fsType string, path! string
ModifyVolumeStatus: status! string, targetVolumeAttributesClassName string
*Namespace: spec NamespaceSpec, status NamespaceStatus
NamespaceCondition: lastTransitionTime time, message string, reason string, status! string, type! string
NamespaceSpec: finalizers [string]
NamespaceStatus: conditions [NamespaceCondition], phase string
*PersistentVolume: spec PersistentVolumeSpec, status PersistentVolumeStatus
*PersistentVolumeClaim: spec PersistentVolumeClaimSpec, status PersistentVolumeClaimStatus
PersistentVolumeClaimCondition: lastProbeTime time, lastTransitionTime time, message string, reason string, status!
  string, type! string
PersistentVolumeClaimStatus: accessModes [string], allocatedResourceStatuses {string}, allocatedResources {quantity},
  capacity {quantity}, conditions [PersistentVolumeClaimCondition], currentVolumeAttributesClassName string,
  modifyVolumeStatus ModifyVolumeStatus, phase string
PersistentVolumeSpec: accessModes [string], awsElasticBlockStore AWSElasticBlockStoreVolumeSource, azureDisk
  AzureDiskVolumeSource, azureFile AzureFilePersistentVolumeSource, capacity {quantity}, cephfs
  CephFSPersistentVolumeSource, cinder CinderPersistentVolumeSource, claimRef ObjectReference, csi
  CSIPersistentVolumeSource, fc FCVolumeSource, flexVolume FlexPersistentVolumeSource, flocker FlockerVolumeSource,
  gcePersistentDisk GCEPersistentDiskVolumeSource, glusterfs GlusterfsPersistentVolumeSource, hostPath
  HostPathVolumeSource, iscsi ISCSIPersistentVolumeSource, local LocalVolumeSource, mountOptions [string], nfs
  NFSVolumeSource, nodeAffinity VolumeNodeAffinity, persistentVolumeReclaimPolicy string, photonPersistentDisk
  PhotonPersistentDiskVolumeSource, portworxVolume PortworxVolumeSource, quobyte QuobyteVolumeSource, rbd
  RBDPersistentVolumeSource, scaleIO ScaleIOPersistentVolumeSource, storageClassName string, storageos
  StorageOSPersistentVolumeSource, volumeAttributesClassName string, volumeMode string, vsphereVolume
  VsphereVirtualDiskVolumeSource
PersistentVolumeStatus: lastPhaseTransitionTime time, message string, phase string, reason string
PortStatus: error string, port! int32, protocol! string
RBDPersistentVolumeSource: fsType string, image! string, keyring string, monitors! [string], pool string, readOnly
  bool, secretRef SecretReference, user string
*ResourceQuota: spec ResourceQuotaSpec, status ResourceQuotaStatus
ResourceQuotaSpec: hard {quantity}, scopeSelector ScopeSelector, scopes [string]
ResourceQuotaStatus: hard {quantity}, used {quantity}
ScaleIOPersistentVolumeSource: fsType string, gateway! string, protectionDomain string, readOnly bool, secretRef!
  SecretReference, sslEnabled bool, storageMode string, storagePool string, system! string, volumeName string
ScopeSelector: matchExpressions [ScopedResourceSelectorRequirement]
ScopedResourceSelectorRequirement: operator! string, scopeName! string, values [string]
SecretReference: name string, namespace string
*Service: spec ServiceSpec, status ServiceStatus
*ServiceAccount: automountServiceAccountToken bool, imagePullSecrets [LocalObjectReference], secrets [ObjectReference]
ServicePort: appProtocol string, name string, nodePort int32, port! int32, protocol string, targetPort intOrString
ServiceSpec: allocateLoadBalancerNodePorts bool, clusterIP string, clusterIPs [string], externalIPs [string],
  externalName string, externalTrafficPolicy string, healthCheckNodePort int32, internalTrafficPolicy string,
  ipFamilies [string], ipFamilyPolicy string, loadBalancerClass string, loadBalancerIP string,
  loadBalancerSourceRanges [string], ports [ServicePort], publishNotReadyAddresses bool, selector {string},
  sessionAffinity string, sessionAffinityConfig SessionAffinityConfig, trafficDistribution string, type string
ServiceStatus: conditions [Condition], loadBalancer LoadBalancerStatus
SessionAffinityConfig: clientIP ClientIPConfig
StorageOSPersistentVolumeSource: fsType string, readOnly bool, secretRef ObjectReference, volumeName string,
  volumeNamespace string
TopologySelectorLabelRequirement: key! string, values! [string]
TopologySelectorTerm: matchLabelExpressions [TopologySelectorLabelRequirement]
VolumeNodeAffinity: required NodeSelector
[io.k8s.api.discovery.v1]
Endpoint: addresses! [string], conditions EndpointConditions, deprecatedTopology {string}, hints EndpointHints, hostname
  string, nodeName string, targetRef ObjectReference, zone string
EndpointConditions: ready bool, serving bool, terminating bool
EndpointHints: forNodes [ForNode], forZones [ForZone]
EndpointPort: appProtocol string, name string, port int32, protocol string
*EndpointSlice: addressType! string, endpoints! [Endpoint], ports! [EndpointPort]
ForNode: name! string
ForZone: name! string
[io.k8s.api.events.v1]
*Event: action string, deprecatedCount int32, deprecatedFirstTimestamp time, deprecatedLastTimestamp time,
  deprecatedSource EventSource, eventTime! microTime, note string, reason string, regarding ObjectReference, related
  ObjectReference, reportingController string, reportingInstance string, series EventSeries, type string
EventSeries: count! int32, lastObservedTime! microTime
[io.k8s.api.node.v1]
Overhead: podFixed {quantity}
*RuntimeClass: handler! string, overhead Overhead, scheduling Scheduling
Scheduling: nodeSelector {string}, tolerations [Toleration]
[io.k8s.api.policy.v1]
*Eviction: deleteOptions DeleteOptions
[io.k8s.api.scheduling.v1]
*PriorityClass: description string, globalDefault bool, preemptionPolicy string, value! int32
[io.k8s.api.storage.v1]
*StorageClass: allowVolumeExpansion bool, allowedTopologies [TopologySelectorTerm], mountOptions [string], parameters
  {string}, provisioner! string, reclaimPolicy string, volumeBindingMode string
[io.k8s.apimachinery.pkg.apis.meta.v1]
Condition: lastTransitionTime! time, message! string, observedGeneration int64, reason! string, status! string, type!
  string
+DeleteOptions: dryRun [string], gracePeriodSeconds int64, ignoreStoreReadErrorWithClusterBreakingPotential bool,
  orphanDependents bool, preconditions Preconditions, propagationPolicy string
FieldSelectorRequirement: key! string, operator! string, values [string]
Preconditions: resourceVersion string, uid string
[io.k8s.metrics.pkg.apis.metrics.v1beta1]
ContainerMetrics: name! string, usage! {quantity}
*NodeMetrics: timestamp! time, window! string, usage! {quantity}
*PodMetrics: timestamp! time, window! string, containers! [ContainerMetrics]
"""
