"""What a bug report needs, in one archive: a summary first, then version, configuration, stories, pods, the journal,
the recent log and facts of the machine. Nothing in it that could be a secret (`redaction.py`)."""

import asyncio
import io
import json
import os
import platform
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from pykubelet import __version__
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.journal_files import segments
from pykubelet.pod.node.node_object import KUBELET_VERSION
from pykubelet.server.control_socket import ask
from pykubelet.up.redaction import (
    pod_without_secrets,
    story_without_secrets,
    text_without_secrets,
    texts_without_secrets,
    without_secrets,
)

_LOG_TAIL: Final = 2 << 20
_SOME: Final = 20


def write_report(path: Path, state: Path, folder: Path | None) -> str:
    """-> its summary. `folder` is that of `up` or `join`, which has logs. Raises Invalid when it cannot be written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        file = os.open(path, flags, 0o600)
    except FileExistsError:
        raise Invalid(f"{path} is there already: choose another name") from None
    except OSError as error:
        raise Invalid(f"{path}: cannot be written: {error.strerror}") from None
    with os.fdopen(file, "wb") as out:
        return _write(out, state, folder)


def _write(out: IO[bytes], state: Path, folder: Path | None) -> str:
    with suppress(Retry):  # then it is all on disk already
        asyncio.run(ask(state / "pykubelet.sock", "flush"))
    told = {question: _asked(state, question) for question in ("configuration", "explain", "pods")}
    stories = [story_without_secrets(each) for each in told["explain"].get("items", [])]
    pods = [pod_without_secrets(each) for each in told["pods"].get("items") or []]
    facts, plan = _facts(state), _plan(folder)
    text = _summary(told, stories, len(pods), facts)
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        _add(archive, "SUMMARY.txt", text)
        _add(archive, "version.json", _json({"pykubelet": __version__, "kubelet": KUBELET_VERSION}))
        _add(archive, "configuration.json", _json(without_secrets({**told["configuration"], "up": plan})))
        _add(archive, "machine.json", _json(facts))
        _add(archive, "stories.json", _json(stories))
        _add(archive, "pods.json", _json(pods))
        for name, part in _logs(folder):
            _add(archive, f"logs/{name}", part)
        for each in segments(state / "journal"):
            _add(archive, f"journal/{each.name}", _journal(each))
    return text


def _asked(state: Path, question: str) -> dict[str, Any]:
    try:
        return dict(asyncio.run(ask(state / "pykubelet.sock", question)))
    except Retry as error:
        return {"error": str(error)}


def _plan(folder: Path | None) -> Any:
    try:
        return json.loads((folder / ".pykubelet").read_bytes()) if folder else {}
    except (OSError, ValueError):
        return {}


def _summary(told: dict[str, dict[str, Any]], stories: list[dict[str, Any]], pods: int, facts: dict[str, Any]) -> str:
    trouble = told["explain"].get("error", "")
    agent = f"does not answer: {trouble}" if trouble else f"runs as node {told['explain'].get('node', '')}"
    lines = [
        f"pykubelet {__version__} (as kubelet {KUBELET_VERSION}), {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        f"{facts['system']}, Python {facts['python']}, {facts['cpus']} CPUs, {facts['memory']}",
        f"The agent {agent}.",
        f"Pods: {pods}, not well: {len(stories)}",
        *(f"  {each['namespace']}/{each['sentence']}" for each in stories[:_SOME]),
        "",
        "Left out: kubeconfigs, keys, tokens, values of variables and annotations, commands, what programs wrote.",
        "Look through it before you give it away all the same.",
    ]
    return "\n".join(lines) + "\n"


def _facts(state: Path) -> dict[str, Any]:
    memory = _first_line("/proc/meminfo")
    place = state if state.exists() else Path("/")
    usage = shutil.disk_usage(place)
    return {
        "system": platform.platform(),
        "os": platform.freedesktop_os_release().get("PRETTY_NAME", "") if Path("/etc/os-release").exists() else "",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "memory": " ".join(memory.split()),
        "load": os.getloadavg(),
        "cgroups": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
        "user": os.geteuid(),
        "disk": {"total": usage.total, "free": usage.free},
    }


def _first_line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline()
    except OSError:
        return ""


def _logs(folder: Path | None) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.log")) if folder else ():
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_TAIL))
            text = file.read(_LOG_TAIL).decode(errors="replace")
        # A cut line may begin in the middle of a secret, where nothing shows that it is one.
        yield path.name, text_without_secrets(text if size <= _LOG_TAIL else text.partition("\n")[2])


def _journal(path: Path) -> str:
    lines = []
    for line in path.read_bytes().splitlines():
        with suppress(ValueError):  # torn
            lines.append(json.dumps(texts_without_secrets(json.loads(line)), ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(f"pykubelet-report/{name}")
    entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
    archive.addfile(entry, io.BytesIO(data))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
