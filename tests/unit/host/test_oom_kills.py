import asyncio
import os
from pathlib import Path

import pytest

from kit.waiting import eventually
from pykubelet.host.oom_kills import OomParser, watch_oom_kills

WHOLE = [
    "java invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0",
    "Mem-Info:",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=java,pid=7,uid=0",
    "Out of memory: Killed process 7 (java) total-vm:1kB, anon-rss:1kB",
]
GROUP = [
    "java invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=999",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods/podx,task_memcg=/kubepods/podx/c,task=java,pid=8,uid=0",
    "Memory cgroup out of memory: Killed process 8 (java) total-vm:1kB",
]
OLD_GROUP = [
    "java invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=999",
    "Task in /kubepods/podx/c killed as a result of limit of /kubepods/podx",
    "Killed process 9 (ja va) total-vm:1kB",
]
TOLD = "System OOM encountered, victim process: java, pid: 7"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (WHOLE, [TOLD]),
        (GROUP, []),
        (OLD_GROUP, []),
        ([*GROUP, *WHOLE, *OLD_GROUP], [TOLD]),
        (["Killed process 1 (x)"], []),
    ],
    ids=["machine", "group", "older kernel", "mixed", "no beginning"],
)
def test_only_a_machine_without_memory_is_told_of(lines: list[str], told: list[str]) -> None:
    parser = OomParser()
    assert [text for line in lines if (text := parser.read(line))] == told


async def test_the_kernels_log_is_followed(tmp_path: Path) -> None:
    told: list[str] = []
    os.mkfifo(tmp_path / "kmsg")
    watching = asyncio.create_task(watch_oom_kills(told.append, str(tmp_path / "kmsg")))
    await asyncio.sleep(0)
    writer = os.open(tmp_path / "kmsg", os.O_RDWR | os.O_NONBLOCK)
    for line in WHOLE:
        os.write(writer, f"4,1,2,-;{line}\n".encode())
        await asyncio.sleep(0.01)
    await eventually(lambda: told == [TOLD])
    watching.cancel()
    os.close(writer)


@pytest.mark.parametrize("path", ["/none", "/dev/null", "ended"])
async def test_where_the_kernels_log_cannot_be_read_nothing_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level("INFO")
    os.mkfifo(tmp_path / "ended")
    watching = asyncio.create_task(watch_oom_kills(lambda text: None, str(tmp_path / path)))
    if path == "ended":
        await asyncio.sleep(0)
        os.close(os.open(tmp_path / path, os.O_WRONLY | os.O_NONBLOCK))
    await eventually(lambda: bool(caplog.records))
    assert "are not told of" in caplog.text
    assert not watching.done()
    watching.cancel()
