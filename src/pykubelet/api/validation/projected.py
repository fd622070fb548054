"""Files made of other objects: items of config maps and secrets, facts about the pod, tokens and certificates."""

from collections.abc import Iterable, Sequence
from typing import Final

from pykubelet.api.field_errors import forbidden, invalid, required, too_long
from pykubelet.api.validation import names
from pykubelet.api.validation.downward import FILE_FIELDS, validate_field_ref, validate_resource_field_ref
from pykubelet.api.validation.meta import validate_label_selector
from pykubelet.api.validation.options import Errors
from pykubelet.api.validation.rules import file_mode, filled, one_of, projected_path, spelled, unique
from pykubelet.api.volumes import (
    ClusterTrustBundleProjection,
    ConfigMapProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    PodCertificateProjection,
    SecretProjection,
    ServiceAccountTokenProjection,
    VolumeProjection,
)

_SHORTEST_TOKEN: Final = 10 * 60
_LONGEST_TOKEN: Final = 2**32
_SHORTEST_CERTIFICATE: Final = 60 * 60
_LONGEST_CERTIFICATE: Final = 91 * 24 * 60 * 60
_LONGEST_KUBERNETES_CERTIFICATE: Final = 24 * 60 * 60
_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_SIGNER_LENGTH: Final = 2 * names.SUBDOMAIN_LENGTH + names.LABEL_LENGTH + 2  # domain/namespace.name


def validate_items(items: Sequence[KeyToPath], path: str) -> Errors:
    for index, item in enumerate(items):
        yield from _item(item, f"{path}[{index}]")


def validate_downward_files(files: Sequence[DownwardAPIVolumeFile], path: str) -> Errors:
    for file in files:
        yield from _downward_file(file, path)


def validate_projections(sources: Sequence[VolumeProjection], path: str) -> Errors:
    taken: set[str] = set()
    for index, source in enumerate(sources):
        yield from _projection(source, path, f"{path}.sources[{index}]", taken)


def _projection(source: VolumeProjection, path: str, place: str, taken: set[str]) -> Errors:
    if source.secret is not None:
        yield from _object_items(source.secret, path, f"{place}.secret", taken)
    if source.config_map is not None:
        yield from _object_items(source.config_map, path, f"{place}.configMap", taken)
    if source.downward_api is not None:
        for file in source.downward_api.items:
            yield from _downward_file(file, f"{place}.downwardAPI")
            yield from _unique_if_given(path, file.path, taken)
    if source.service_account_token is not None:
        yield from _token(source.service_account_token, path, f"{place}.serviceAccountToken")
    if source.cluster_trust_bundle is not None:
        yield from _trust_bundle(source.cluster_trust_bundle, f"{place}.clusterTrustBundle")
        yield from unique(path, source.cluster_trust_bundle.path, taken)
    if source.pod_certificate is not None:
        yield from _pod_certificate(source.pod_certificate, path, f"{place}.podCertificate", taken)
    kinds = (source.secret, source.config_map, source.downward_api, source.service_account_token)
    others = (source.cluster_trust_bundle, source.pod_certificate)
    if sum(kind is not None for kind in (*kinds, *others)) > 1:
        yield forbidden(place, "must have only one kind: give each an entry of its own")


def _object_items(source: SecretProjection | ConfigMapProjection, path: str, place: str, taken: set[str]) -> Errors:
    yield from filled(f"{place}.name", source.name)
    for index, item in enumerate(source.items):
        yield from _item(item, f"{place}.items[{index}]")
        yield from _unique_if_given(path, item.path, taken)


def _item(item: KeyToPath, path: str) -> Errors:
    yield from filled(f"{path}.key", item.key)
    yield from filled(f"{path}.path", item.path)
    yield from projected_path(f"{path}.path", item.path)
    yield from file_mode(f"{path}.mode", item.mode)


def _downward_file(file: DownwardAPIVolumeFile, path: str) -> Errors:
    yield from filled(f"{path}.path", file.path)
    yield from projected_path(f"{path}.path", file.path)
    if file.field_ref is not None:
        yield from validate_field_ref(file.field_ref, FILE_FIELDS, f"{path}.fieldRef")
        if file.resource_field_ref is not None:
            yield invalid(path, None, "must have only one of fieldRef and resourceFieldRef for each file")
    elif file.resource_field_ref is not None:
        yield from validate_resource_field_ref(
            file.resource_field_ref, f"{path}.resourceFieldRef", of_named_container=True
        )
    else:
        yield required(path, "must have fieldRef or resourceFieldRef for each file")
    yield from file_mode(f"{path}.mode", file.mode)


def _token(token: ServiceAccountTokenProjection, path: str, place: str) -> Errors:
    seconds = token.expiration_seconds or 0
    if seconds < _SHORTEST_TOKEN:
        yield invalid(f"{place}.expirationSeconds", seconds, "must be at least 600, which is 10 minutes")
    if seconds > _LONGEST_TOKEN:
        yield invalid(f"{place}.expirationSeconds", seconds, f"must be at most {_LONGEST_TOKEN}")
    if token.path:
        yield from projected_path(f"{path}.path", token.path)
    else:
        yield required(f"{path}.path", "is required for a service account token")


def _trust_bundle(bundle: ClusterTrustBundleProjection, path: str) -> Errors:
    if bundle.name is not None and bundle.signer_name is not None:
        yield invalid(path, None, "must have only one of name and signerName")
    elif bundle.name is not None:
        yield from filled(f"{path}.name", bundle.name)
        yield from spelled(f"{path}.name", bundle.name, _bundle_name_faults(bundle.name))
        if bundle.label_selector is not None:
            yield invalid(f"{path}.labelSelector", None, "must not be set beside name")
    elif bundle.signer_name is not None:
        yield from filled(f"{path}.signerName", bundle.signer_name)
        yield from _signer_name(f"{path}.signerName", bundle.signer_name)
        yield from validate_label_selector(bundle.label_selector, f"{path}.labelSelector")
    else:
        yield required(path, "must have name or signerName")
    yield from filled(f"{path}.path", bundle.path)
    yield from projected_path(f"{path}.path", bundle.path)


def _bundle_name_faults(name: str) -> names.Faults:
    """`example.com:signer:name`: the signer, with colons for slashes, may stand before the name."""
    signer, colon, own = name.rpartition(":")
    if colon and not signer:
        return ["must have a signer before the ':', such as example.com:my-signer:my-name"]
    if colon and "/" in signer:
        return ["must have ':' instead of '/' in the signer, such as example.com:my-signer:my-name"]
    return names.dns_subdomain(own)


def _pod_certificate(certificate: PodCertificateProjection, path: str, place: str, taken: set[str]) -> Errors:
    yield from _signer_name(f"{place}.signerName", certificate.signer_name)
    yield from one_of(f"{place}.keyType", certificate.key_type, _KEY_TYPES)
    yield from _certificate_lifetime(certificate, f"{place}.maxExpirationSeconds")
    files = {
        "credentialBundlePath": certificate.credential_bundle_path,
        "keyPath": certificate.key_path,
        "certificateChainPath": certificate.certificate_chain_path,
    }
    for name, file in files.items():
        if file:
            yield from projected_path(f"{place}.{name}", file)
            yield from unique(path, file, taken)
    if not any(files.values()):
        yield required(place, f"must have at least one of {', '.join(files)}")


def _certificate_lifetime(certificate: PodCertificateProjection, field: str) -> Errors:
    seconds = certificate.max_expiration_seconds
    if seconds is None:
        return
    domain = certificate.signer_name.partition("/")[0]
    kubernetes = f".{domain}".endswith(".kubernetes.io")
    longest = _LONGEST_KUBERNETES_CERTIFICATE if kubernetes else _LONGEST_CERTIFICATE
    if not _SHORTEST_CERTIFICATE <= seconds <= longest:
        yield invalid(field, seconds, f"must be between {_SHORTEST_CERTIFICATE} and {longest} for this signer")


def _signer_name(field: str, name: str) -> Errors:
    if not name:
        yield required(field, "must be a domain, a slash and a name, such as example.com/my-signer")
        return
    if name.count("/") != 1:
        yield invalid(field, name, "must be a domain, a slash and a name, such as example.com/my-signer")
        return
    domain, _, own = name.partition("/")
    if names.size(domain) > names.SUBDOMAIN_LENGTH:
        yield too_long(field, names.SUBDOMAIN_LENGTH)
    labels = domain.split(".")
    yield from spelled(field, domain, _first_faults(map(names.dns_label, labels)))
    if len(labels) < 2:
        yield invalid(field, domain, "must have a domain with a dot in it, such as example.com")
    yield from spelled(field, own, _first_faults(map(names.dns_subdomain, own.split("."))))
    if names.size(name) > _SIGNER_LENGTH:
        yield too_long(field, _SIGNER_LENGTH)


def _first_faults(parts: Iterable[names.Faults]) -> names.Faults:
    """The faults of the first part that has any: those of the next would say the same."""
    return next((faults for faults in parts if faults), [])


def _unique_if_given(path: str, file: str, taken: set[str]) -> Errors:
    if file:
        yield from unique(path, file, taken)
