"""What one request of every shape costs all others: the longest that it holds the loop, and how much it computes.

Each has a server of its own, which is given up after a while: what takes longer than that has made its point.
"""

import gc
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from kit.api_fuzz import Ask
from kit.heavy_bodies import shapes
from kit.held_server import Cost, held_server

_PATIENCE: Final = 12.0


def run() -> None:
    wanted = os.environ.get("SHAPES", "").lower().split("|") if "SHAPES" in os.environ else []
    print(f"{'shape':<36} {'answer':>6} {'bytes':>9} {'step ms':>8} {'beside':>8} {'cpu ms':>8} {'wall ms':>8}")
    for name, ask in shapes().items():
        if wanted and not any(each in name.lower() for each in wanted):
            continue
        cost = _cost(ask)
        shown = f"{name:<36} {cost.code:>6} {len(ask.body):>9,}"
        times = (cost.step, cost.beside, cost.cpu, cost.seconds)
        print(shown + "".join(f" {1000 * each:>8,.1f}" for each in times), flush=True)


def _cost(ask: Ask) -> Cost:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            with tempfile.TemporaryDirectory() as folder, held_server(Path(folder)) as server:
                gc.freeze()
                gc.set_threshold(20_000, 20, 20)  # as the server itself has it
                time.sleep(0.05)
                os.write(writing, msgspec.json.encode(tuple(server.cost(ask))))
        finally:
            os._exit(0)
    os.close(writing)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    with open(reading, "rb") as told:
        data = told.read()
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.waitpid(child, 0)
    return Cost(*msgspec.json.decode(data)) if data else Cost(0, _PATIENCE, _PATIENCE, _PATIENCE, _PATIENCE, "")
