"""What this machine's own resolv.conf says, read again when it has changed."""

import logging
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.dns import Dns, DnsSettings, parse_resolv_conf

log = logging.getLogger(__name__)

_LONGEST: Final = 10 << 20


class HostDnsSettings(Struct, frozen=True, kw_only=True):
    resolv_conf: str = "/etc/resolv.conf"
    """May be empty: then containers ask a resolver of their own."""
    cluster_servers: tuple[str, ...] = ()
    cluster_domain: str = ""


class HostDns:
    """What cannot be read leaves what was there."""

    def __init__(self, settings: HostDnsSettings) -> None:
        self._path = settings.resolv_conf
        self._settings = DnsSettings(
            cluster_servers=settings.cluster_servers,
            cluster_domain=settings.cluster_domain,
            has_file=bool(settings.resolv_conf),
        )
        self._seen = ""
        """What the file looked like when it was read, or what was wrong with it."""

    def settings(self) -> DnsSettings:
        if not self._path:
            return self._settings
        try:
            there = Path(self._path).stat()
            seen = f"{there.st_mtime_ns} {there.st_size} {there.st_ino}"
            if seen != self._seen:
                self._seen = seen
                self._settings = changed(self._settings, host=self._read())
        except OSError as error:
            if self._seen != error.strerror:
                self._seen = str(error.strerror)
                log.warning("%s: %s; pods get the name servers that were known before", self._path, error.strerror)
        except Invalid as error:
            log.warning("%s: %s; pods get the name servers that were known before", self._path, error)
        return self._settings

    def _read(self) -> Dns:
        with Path(self._path).open(encoding="utf-8", errors="replace") as file:
            return parse_resolv_conf(file.read(_LONGEST))
