"""Keeps the policy as the cache has it: every role and binding, from the moment on in which the cache knows of it."""

from functools import partial

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import made_of
from pykubelet.apiserver.security.rbac.policy import BINDINGS, ROLES, Policy
from pykubelet.apiserver.security.rbac.rules import GROUP
from pykubelet.apiserver.store.port import Entry


def follow(policy: Policy, backend: Backend) -> None:
    for plural in (*ROLES, *BINDINGS):
        resource = backend.resources.of(GROUP, plural)
        backend.cache.mirror(resource.prefix, partial(_tell, policy, plural, resource.prefix, resource.namespaced))


def _tell(policy: Policy, plural: str, prefix: str, namespaced: bool, key: str, entry: Entry | None) -> None:
    namespace, _, name = key.removeprefix(prefix).rpartition("/")
    if bool(namespace) == namespaced:
        policy.tell(plural, (namespace, name), made_of(entry, lambda obj: obj, "gives nobody anything"))
