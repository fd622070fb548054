"""What Go's collector says of its own process and Python's does not, under the same names."""

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_UNLIMITED: Final = float(2**64 - 1)


def process_families(proc: Path = Path("/proc/self")) -> Iterator[Metric]:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    bound = _UNLIMITED if most == resource.RLIM_INFINITY else float(most)
    text = "Maximum amount of virtual memory available in bytes."
    yield GaugeMetricFamily("process_virtual_memory_max_bytes", text, bound)
    octets = _octets(proc)
    for name, way, key in (("receive", "received", "InOctets"), ("transmit", "sent", "OutOctets")):
        if key in octets:
            text = f"Number of bytes {way} by the process over the network."
            yield CounterMetricFamily(f"process_network_{name}_bytes", text, float(octets[key]))


def _octets(proc: Path) -> dict[str, int]:
    """The kernel counts them for all who share our network."""
    try:
        lines = (proc / "net/netstat").read_text().splitlines()
    except OSError:
        return {}
    named = [line.split() for line in lines if line.startswith("IpExt:")]
    return dict(zip(named[0][1:], map(int, named[1][1:]), strict=True)) if len(named) == 2 else {}
