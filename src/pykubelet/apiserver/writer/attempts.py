"""What is told of a write to those who have a word in it."""

from typing import Final

from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.admission import Attempt, Operation
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.writer.author import KUBE_APISERVER, Author

_PARTS: Final = ("", "status", "approval", "ephemeralcontainers", "finalize", "resize")
"""The ways to write an object in which others have a word."""


def attempt_of(
    author: Author, resource: Resource, obj: Object | None, old: Object | None, part: str, options: Object | None = None
) -> Attempt | None:
    """None: it is the server's own business."""
    if author is KUBE_APISERVER or part not in _PARTS:
        return None
    if obj is None and author.info is not None and author.info.subresource:
        return None  # who evicts has been asked about the eviction
    metadata = (obj or old or {})["metadata"]
    operation: Operation = "DELETE" if obj is None else "CREATE" if old is None else "UPDATE"
    whole = {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1", **(options or {})}
    if author.manager:
        whole["fieldManager"] = author.manager
    if author.dry_run:
        whole["dryRun"] = ["All"]
    name = metadata.get("name", "")
    return Attempt(
        operation=operation,
        resource=resource,
        part=part,
        namespace=name if resource.plural == "namespaces" else metadata.get("namespace", ""),
        name=name,
        obj=obj,
        old=old,
        user=author.user,
        options=whole,
        dry_run=author.dry_run,
        warnings=author.warnings if author.info is not None else [],  # inside, nobody listens
        notes=author.notes if author.info is not None else {},
    )
