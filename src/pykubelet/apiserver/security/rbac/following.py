"""Keeps the policy as the cache has it: every role and binding, from the moment on in which the cache knows of it."""

import logging
from functools import partial

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import UNREADABLE, Object, of_entry
from pykubelet.apiserver.security.rbac.policy import BINDINGS, ROLES, Policy
from pykubelet.apiserver.security.rbac.rules import GROUP
from pykubelet.apiserver.store.port import Entry

log = logging.getLogger(__name__)


def follow(policy: Policy, backend: Backend) -> None:
    for plural in (*ROLES, *BINDINGS):
        resource = backend.resources.of(GROUP, plural)
        backend.cache.mirror(resource.prefix, partial(_tell, policy, plural, resource.prefix, resource.namespaced))


def _tell(policy: Policy, plural: str, prefix: str, namespaced: bool, key: str, entry: Entry | None) -> None:
    namespace, _, name = key.removeprefix(prefix).rpartition("/")
    if bool(namespace) == namespaced:
        policy.tell(plural, (namespace, name), None if entry is None else _object(entry))


def _object(entry: Entry) -> Object | None:
    try:
        return of_entry(entry)
    except UNREADABLE as error:
        log.error("%s cannot be read, and gives nobody anything: %s", entry.key, error)
        return None
