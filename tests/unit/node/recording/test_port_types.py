"""Whoever adds something to the agent's Dependencies finds out here whether it can be recorded."""

from types import NoneType
from typing import Any

import msgspec
import pytest

from pykubelet.node.recording.port_types import Method, Way, capability_functions, fields, methods


def everything() -> dict[str, Method]:
    known, found = fields(), dict[str, Method]()
    ports = {**known.ports, **known.port_maps}
    for name, method in known.functions.items():
        if method.way is Way.MAKE:
            ports[name] = method.gives
        else:
            found[name] = method
    found |= {f"{name}.{each}": method for name, kind in ports.items() for each, method in methods(kind).items()}
    return found | {f"can.{name}": method for name, method in capability_functions().items()}


@pytest.mark.parametrize(("name", "kind"), [(name, each.gives) for name, each in everything().items()])
def test_what_comes_back_can_be_read_from_a_line(name: str, kind: Any) -> None:
    """A union of Structs has to be tagged; what is no plain value has to be a port."""
    if kind is not NoneType:
        msgspec.json.Decoder(kind, dec_hook=lambda kind, value: value)


@pytest.mark.parametrize(("name", "kind"), fields().settings.items())
def test_settings_can_be_read_from_a_line(name: str, kind: Any) -> None:
    msgspec.json.Decoder(kind, dec_hook=lambda kind, value: value)


def test_each_is_used_in_its_way() -> None:
    found = everything()
    assert found["runtime.observe"].way is Way.CALL
    assert found["runtime.changes"].way is found["sources.watch"].way is Way.STREAM
    assert found["recorder.event"].way is found["planned"].way is Way.SAY
    assert found["node"].way is Way.LOOK
    assert found["memory_use"].way is found["can.unenforced"].way is Way.CALL
    assert found["eviction.stats.node"].way is Way.CALL
    assert fields().functions["eviction.notice"].way is Way.MAKE
    assert "eviction.settings" in fields().settings
    assert {"journal", "now"}.isdisjoint({*fields().ports, *fields().functions, *fields().settings})
