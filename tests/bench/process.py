"""What the embedded runtime costs: a pod from nothing to a program that runs, a command in it, and its stop. As root,
and once more as an ordinary user.

Another tree is measured with `PYTHONPATH=<its src>:tests python -m bench process`.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import pykubelet
from kit.nobody import as_nobody
from kit.oci import PackedLayer, busybox_layer, image_of, layer_of, tar_entry, write_layout
from kit.pods import make_pod
from pykubelet.pod.ports.runtime import ContainerConfig, SandboxConfig
from pykubelet.runtime.process.images.archive import import_archive
from pykubelet.runtime.process.images.images import image_store
from pykubelet.runtime.process.runtime import ProcessRuntime

T = TypeVar("T")

ROUNDS = int(os.environ.get("ROUNDS", "40"))
_WARM = 3
_STEPS = ("sandbox", "create", "start", "exec", "stop", "remove")
_IMAGE = "busybox:1.36"
_PROGRAM = ("sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 1000 & wait; done")


def run() -> None:
    where = Path(pykubelet.__file__).parents[1]
    print(f"process: one pod after the other on the embedded runtime, {ROUNDS} of them, code of {where} (ms)\n")
    print("run: sandbox, create and start until the program has spoken; exec: `true`; stop: by SIGTERM\n", flush=True)
    _run_here()
    if os.getuid() == 0:
        code = "import sys; sys.path[:] = sys.argv[1:]; from bench import process; process._run_here()"
        command = [*as_nobody(), sys.executable, "-c", code, *filter(None, sys.path)]
        done = subprocess.run(command, check=False, cwd="/")
        if done.returncode:
            print("as an ordinary user: not measured\n")


def _run_here() -> None:
    folder = Path(tempfile.mkdtemp(prefix="pykubelet-bench-"))
    try:
        for image in ("host", _IMAGE):
            asyncio.run(_measure(folder, image))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(folder: Path, image: str) -> None:
    """On this machine's programs, and on an image of two layers that is here."""
    runtime = ProcessRuntime(folder / "root", log_root=folder / "logs")
    if image == _IMAGE:
        await _import(folder)
    limitations = (await runtime.status()).limitations
    kind = "plain" if any("plain processes" in sentence for sentence in limitations) else "isolated"
    taken: dict[str, list[float]] = {name: [] for name in ("run", *_STEPS)}
    try:
        for number in range(_WARM + ROUNDS):
            times = await _one(runtime, folder / "logs", f"{image[:4]}-{number}", image)
            for name in taken if number >= _WARM else ():
                taken[name].append(times[name] * 1000)
    finally:
        await runtime.close()
    print(f"{f'user {os.getuid()}, {kind}, {image[:4]}':>26} {'p50':>8} {'p90':>8} {'min':>8}")
    for name, values in taken.items():
        p90 = statistics.quantiles(values, n=10)[8]
        print(f"{name:>26} {statistics.median(values):>8.1f} {p90:>8.1f} {min(values):>8.1f}")
    print(flush=True)


async def _import(folder: Path) -> None:
    base, store = busybox_layer(), image_store(folder / "root")
    layers = [PackedLayer(base, base.digest), layer_of(tar_entry("etc/motd", b"hello"))]
    write_layout([image_of(_IMAGE, layers)], folder / "image.tar")
    store.open()
    with open(folder / "image.tar", "rb") as file:  # noqa: ASYNC230 - nothing else is going on
        await import_archive(store, file)


async def _one(runtime: ProcessRuntime, logs: Path, name: str, image: str) -> dict[str, float]:
    times: dict[str, float] = {}
    began = time.perf_counter()
    sandbox = await _timed(times, "sandbox", runtime.run_sandbox(SandboxConfig(pod=make_pod(name), hostname=name)))
    config = ContainerConfig(name="c", image=image, command=_PROGRAM)
    container = await _timed(times, "create", runtime.create_container(sandbox.id, config))
    await _timed(times, "start", runtime.start_container(container))
    await _spoken(logs, name)
    times["run"] = time.perf_counter() - began
    await _timed(times, "exec", runtime.exec_sync(container, ("true",), 30.0))
    await _timed(times, "stop", runtime.stop_container(container, 30.0))
    await _timed(times, "remove", runtime.remove_sandbox(sandbox.id))
    return times


async def _timed(times: dict[str, float], name: str, work: Awaitable[T]) -> T:
    began = time.perf_counter()
    try:
        return await work
    finally:
        times[name] = time.perf_counter() - began


async def _spoken(logs: Path, name: str) -> None:
    """Until its first line is in its log."""
    deadline = time.perf_counter() + 30
    while not _has_spoken(logs, name):
        assert time.perf_counter() < deadline
        await asyncio.sleep(0.001)


def _has_spoken(logs: Path, name: str) -> bool:
    return any(path.stat().st_size for path in logs.glob(f"*_{name}_*/c/0.log"))
