"""A network of its own for a test: packet filter, addresses and ports that nobody else has."""

import ctypes
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

ADDRESS: Final = "198.51.100.5"
OTHER: Final = "198.51.100.1"
_CLONE_NEWNET: Final = 0x40000000


@contextmanager
def own_network() -> Iterator[str]:
    """This thread, and whatever it starts, is in a network with one address. -> the name of the network of the only
    other machine that there is, by way of which everything else would be"""
    lacking = [name for name in ("ip", "nft") if shutil.which(name) is None]
    if os.geteuid() != 0 or lacking:
        why = f"not installed: {', '.join(lacking)}" if lacking else "only root can make networks"
        if os.environ.get("CI") == "true":
            pytest.fail(f"the tests of services cannot run: {why}")
        pytest.skip(f"needs a network of its own: {why}")
    name = f"pykubelet-{uuid.uuid4().hex[:8]}"
    other = f"{name}-other"
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        for each in (name, other):
            _ip("netns", "add", each)
            _ip("-n", each, "link", "set", "lo", "up")
        _ip("-n", name, "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", other)
        for each, link, address in ((name, "here", ADDRESS), (other, "there", OTHER)):
            _ip("-n", each, "address", "add", f"{address}/24", "dev", link)
            _ip("-n", each, "link", "set", link, "up")
        _ip("-n", name, "route", "add", "default", "via", OTHER)
        _enter(os.open(f"/run/netns/{name}", os.O_RDONLY))
        yield other
    finally:
        _enter(before)
        for each in (name, other):
            subprocess.run(["ip", "netns", "delete", each], check=False, capture_output=True)


def nft_tables() -> list[str]:
    """Of the packet filter where the test is."""
    said = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True).stdout
    return [line.removeprefix("table ") for line in said.splitlines()]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "the network cannot be entered")
    finally:
        os.close(descriptor)
