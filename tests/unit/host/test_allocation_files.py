import asyncio
import json
from pathlib import Path

import pytest

from pykubelet.api.container import ResourceRequirements
from pykubelet.api.quantity import parse
from pykubelet.base.errors import Retry
from pykubelet.host.allocation_files import AllocationFiles
from pykubelet.pod.resize.allocation import Allocations

# As upstream's agent (v1.34.11) has written it.
UPSTREAM = (
    r'{"data":"{\"entries\":{\"uid-1\":{\"ContainerResources\":{\"c\":{\"limits\":{\"cpu\":\"1500m\",\"memory\":\"1Gi\"},'
    r"\"requests\":{\"cpu\":\"100m\",\"memory\":\"64Mi\"}},\"d\":{}}},\"uid-2\":{\"ContainerResources\":{\"x\":"
    r'{\"limits\":{\"cpu\":\"0\"},\"claims\":[{\"name\":\"q\"}]}}}}}","checksum":2058893786}'
)
SIZE = ResourceRequirements(
    limits={"cpu": parse("1.5"), "memory": parse("1Gi")}, requests={"cpu": parse("100m"), "memory": parse("64Mi")}
)


async def written(folder: Path, allocations: Allocations) -> None:
    files = AllocationFiles(folder)
    running = asyncio.create_task(files.run())
    files.save(allocations)
    await files.saved()
    running.cancel()


async def test_what_upstream_has_written_is_read_and_written_to_the_byte(tmp_path: Path) -> None:
    for name in ("allocated_pods_state", "actuated_pods_state"):
        (tmp_path / name).write_text(UPSTREAM)
    found = AllocationFiles(tmp_path).load()
    assert found.allocated["uid-1"]["c"] == found.actuated["uid-1"]["c"] == SIZE
    other = tmp_path / "other"
    await written(other, found)
    for name in ("allocated_pods_state", "actuated_pods_state"):
        assert (other / name).read_text() == UPSTREAM
        assert (other / name).stat().st_mode & 0o777 == 0o600


async def test_only_the_last_of_many_is_sure_to_be_written(tmp_path: Path) -> None:
    files = AllocationFiles(tmp_path)
    running = asyncio.create_task(files.run())
    for number in range(100):
        files.save(Allocations(allocated={str(number): {"c": SIZE}}))
    await files.saved()
    await files.saved()  # there is nothing to wait for
    running.cancel()
    assert AllocationFiles(tmp_path).load() == Allocations(allocated={"99": {"c": SIZE}})
    assert [path.name for path in tmp_path.iterdir()] == ["allocated_pods_state"]  # noqa: ASYNC240


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\0" * 4096,
        UPSTREAM.replace("1Gi", "2Gi"),
        UPSTREAM.replace("2058893786", '"x"'),
        json.dumps({"data": '{"entries": 3}', "checksum": 1}),
    ],
)
def test_a_spoilt_file_is_put_aside_and_named(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "allocated_pods_state").write_text(text)
    (tmp_path / "actuated_pods_state").write_text(UPSTREAM)
    found = AllocationFiles(tmp_path).load()
    assert (dict(found.allocated), len(found.actuated)) == ({}, 2)
    assert (tmp_path / "allocated_pods_state.bad").read_text() == text
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert f"{tmp_path}/allocated_pods_state cannot be used" in caplog.text


async def test_a_full_disk_is_told_to_who_waits_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.host.allocation_files._RETRY", 0.01)
    (tmp_path / "folder").write_text("in the way")
    files = AllocationFiles(tmp_path / "folder")
    running = asyncio.create_task(files.run())
    files.save(Allocations(allocated={"u": {"c": SIZE}}))
    with pytest.raises(Retry, match=r"what pods were given cannot be written down in .*folder"):
        await files.saved()
    (tmp_path / "folder").unlink()
    async with asyncio.timeout(10):
        while not (tmp_path / "folder/allocated_pods_state").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()
