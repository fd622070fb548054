"""The chains of the packet filter that other components look for on a node, as every kubelet makes them: a hint which
kind of iptables is in use, a canary that dies when somebody flushes everything, and a guard for the machine's own
addresses."""

import logging
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Final

from pykubelet.base.tasks import every
from pykubelet.host.threads import in_thread

log = logging.getLogger(__name__)

_PERIOD: Final = 60.0
_SECONDS: Final = 30.0
_WAIT: Final = ("-w", "5")
"""Others may be at it."""
_CANARY: Final = "KUBE-KUBELET-CANARY"
_TABLES: Final = ("mangle", "nat", "filter")
_FIREWALL: Final = "KUBE-FIREWALL"
_NOT_FROM_OUTSIDE: Final = (
    *("-m", "comment", "--comment", "block incoming localnet connections"),
    *("--dst", "127.0.0.0/8", "!", "--src", "127.0.0.0/8"),
    *("-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP"),
)
"""Nobody else's packets reach addresses that are this machine's alone, even where they are routed."""


def present_programs() -> tuple[str, ...]:
    """Those of iptables and ip6tables that this machine's kernel obeys. Blocks."""
    found = filter(None, (shutil.which(name) for name in ("iptables", "ip6tables")))
    return tuple(program for program in found if _said(program, "mangle", "-S", "POSTROUTING") == 0)


async def keep_chains(program: str) -> None:
    """Make the chains, and again when somebody has cleared them away. Until cancelled."""
    is_told = False
    async for _ in every(_PERIOD):
        why = await in_thread(partial(_ensure_all, program))
        if why and not is_told:
            log.warning("%s: %s; others may not know which kind of iptables is in use", program, why)
        is_told = bool(why)


def _ensure_all(program: str) -> str:
    """-> what could not be done, if anything."""
    if _said(program, _TABLES[0], "-S", _CANARY) == 0:
        return ""
    return next((f"{what} cannot be made" for what, is_there in _steps(program) if not is_there), "")


def _steps(program: str) -> Iterator[tuple[str, bool]]:
    """One by one; the canaries come last: they stand for all the others."""
    yield "KUBE-IPTABLES-HINT", _has_chain(program, "mangle", "KUBE-IPTABLES-HINT")
    if not program.endswith("ip6tables"):
        yield _FIREWALL, _has_chain(program, "filter", _FIREWALL)
        for chain in ("OUTPUT", "INPUT"):
            yield f"the rule of {chain}", _has_rule(program, "-I", chain, "-j", _FIREWALL)
        yield f"the rule of {_FIREWALL}", _has_rule(program, "-A", _FIREWALL, *_NOT_FROM_OUTSIDE)
    for table in reversed(_TABLES):
        yield _CANARY, _has_chain(program, table, _CANARY)


def _has_chain(program: str, table: str, chain: str) -> bool:
    """Made, unless it was there."""
    return _said(program, table, "-N", chain) == 0 or _said(program, table, "-S", chain) == 0


def _has_rule(program: str, how: str, chain: str, *rule: str) -> bool:
    return _said(program, "filter", "-C", chain, *rule) == 0 or _said(program, "filter", how, chain, *rule) == 0


def _said(program: str, table: str, *arguments: str) -> int:
    command = [program, *_WAIT, "-t", table, *arguments]
    try:
        return subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode  # noqa: S603 - ours
    except (OSError, subprocess.SubprocessError) as error:
        log.debug("%s: %s", " ".join(command), error)
        return -1
