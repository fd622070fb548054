"""What of a request goes into the audit log: the first rule of a policy file that fits it says so, as upstream."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.documents import DocumentError, read_document
from pykubelet.api.struct import Struct
from pykubelet.api.unknown_fields import unknown_fields
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import User
from pykubelet.base.errors import Invalid

Level = Literal["None", "Metadata", "Request", "RequestResponse"]
Stage = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]

_VERSION: Final = "audit.k8s.io/v1"


class GroupResources(Struct, frozen=True):
    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class PolicyRule(Struct, frozen=True):
    level: Level
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool | None = None


class Policy(Struct, frozen=True):
    rules: tuple[PolicyRule, ...] = ()
    omit_stages: tuple[Stage, ...] = ()
    omit_managed_fields: bool = False
    api_version: str = ""
    kind: str = ""
    metadata: dict[str, object] = {}


class Depth(msgspec.Struct, frozen=True):
    """How much of one request is told, and when."""

    level: Level = "None"
    omitted: frozenset[str] = frozenset()
    omits_managed_fields: bool = False


EVERYTHING: Final = Policy(rules=(PolicyRule(level="Metadata"),))
"""Where a log is wanted and no policy given: upstream would log nothing then, which nobody means."""


def depth(policy: Policy, info: RequestInfo, user: User | None) -> Depth:
    """By the first rule that fits; nothing where none does."""
    for rule in policy.rules:
        if _fits(rule, info, user):
            stays = policy.omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields
            return Depth(rule.level, frozenset((*policy.omit_stages, *rule.omit_stages)), stays)
    return Depth()


def _fits(rule: PolicyRule, info: RequestInfo, user: User | None) -> bool:
    if rule.users and (user is None or user.name not in rule.users):
        return False
    if rule.user_groups and (user is None or not set(rule.user_groups).intersection(user.groups)):
        return False
    if rule.verbs and info.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        is_there = not rule.namespaces or info.namespace in rule.namespaces
        return (
            info.is_resource and is_there and (not rule.resources or any(_names(each, info) for each in rule.resources))
        )
    if rule.non_resource_urls:
        return not info.is_resource and any(_is_below(info.path, url) for url in rule.non_resource_urls)
    return True


def _names(wanted: GroupResources, info: RequestInfo) -> bool:
    if wanted.group != info.group:
        return False
    if not wanted.resources:
        return True
    if wanted.resource_names and info.name not in wanted.resource_names:
        return False
    asked = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    forms = {asked, "*", f"{info.resource}/*"}
    if info.subresource:
        forms.add(f"*/{info.subresource}")
    return not forms.isdisjoint(wanted.resources)


def _is_below(path: str, url: str) -> bool:
    return path.startswith(url.rstrip("*")) if url.endswith("*") else path == url


# --- the file


def read_policy(path: str) -> Policy:
    """Raises Invalid, which names the place: a policy that is read wrongly leaves out what somebody relies on."""
    try:
        document = read_document(path, Path(path).read_bytes(), "Policy")
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None
    except DocumentError as error:
        raise Invalid(f"{path}: {error}") from None
    try:
        policy = convert(Policy, document.value)
    except DecodeError as error:
        raise Invalid(f"{path}: {error}") from None
    faults = [str(each) for each in unknown_fields(Policy, document.value)]
    faults += _faults(policy)
    if faults:
        raise Invalid(f"{path}: {'; '.join(faults)}")
    return policy


def _faults(policy: Policy) -> Iterator[str]:
    if (policy.api_version, policy.kind) != (_VERSION, "Policy"):
        yield f"has to be a Policy of {_VERSION}, not {policy.kind or 'anything'} of {policy.api_version or 'nothing'}"
    if not policy.rules:
        yield "rules: without any, nothing would be logged"
    for index, rule in enumerate(policy.rules):
        place = f"rules[{index}]"
        if rule.non_resource_urls and (rule.resources or rule.namespaces):
            yield f"{place}.nonResourceURLs: one rule cannot be about both resources and other paths"
        for url in rule.non_resource_urls:
            if url != "*" and not url.startswith("/"):
                yield f"{place}.nonResourceURLs: {url!r} has to begin with a /"
            if "*" in url[:-1]:
                yield f"{place}.nonResourceURLs: {url!r} may have a * at its end only"
        for each in rule.resources:
            if "/" in each.group:
                yield f"{place}.resources: {each.group!r} is a group with its version: give the group alone"
            if each.resource_names and not each.resources:
                yield f"{place}.resources: resourceNames need the resources that they are names of"
