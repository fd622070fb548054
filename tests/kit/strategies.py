"""The rules of one kind, asked without a server."""

from typing import Any

from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.strategies.all import strategy_for
from pykubelet.apiserver.strategies.base import Strategy

_RESOURCES = Resources()


def strategy_of(group: str, plural: str) -> Strategy:
    return strategy_for(_RESOURCES.of(group, plural))


def made(strategy: Strategy, **content: Any) -> dict[str, Any]:
    """An object of the kind, with its defaults."""
    resource = strategy.resource
    place = {"namespace": "default"} if resource.namespaced else {}
    metadata = {"name": "a", **place, **content.pop("metadata", {})}
    return strategy.normal({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content})


def faults(strategy: Strategy, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """The fields that something is wrong with, in a new object or in one that is to replace another."""
    found = strategy.validate(obj) if old is None else strategy.validate_update(obj, old, "")
    return [each.field for each in found]
