"""What pods, containers and the node use, read from this machine's kernel when somebody asks."""

from pykubelet.host.stats.pods import StatsSettings
from pykubelet.host.stats.reader import StatsReader

__all__ = ["StatsReader", "StatsSettings"]
