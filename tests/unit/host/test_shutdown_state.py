# ruff: noqa: ASYNC240 - tests may block
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pykubelet.host.shutdown_state import ShutdownState

BEGAN, ENDED = datetime(2026, 1, 2, 3, 4, 5, 678, UTC), datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)


async def test_when_it_began_and_ended_is_known_after_the_reboot(tmp_path: Path) -> None:
    assert await ShutdownState(tmp_path).load() == (None, None)
    await ShutdownState(tmp_path).save(BEGAN, None)
    assert await ShutdownState(tmp_path).load() == (BEGAN, None)
    await ShutdownState(tmp_path).save(BEGAN, ENDED)
    assert await ShutdownState(tmp_path).load() == (BEGAN, ENDED)
    assert [path.name for path in tmp_path.iterdir()] == ["graceful_node_shutdown_state"]


async def test_upstreams_file_is_understood(tmp_path: Path) -> None:
    text = '{"startTime":"2026-01-02T03:04:05.123456789Z","endTime":"0001-01-01T00:00:00Z"}'
    (tmp_path / "graceful_node_shutdown_state").write_text(text)
    began, ended = await ShutdownState(tmp_path).load()
    assert began is not None
    assert (began.second, began.microsecond, ended) == (5, 123456, None)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"startTime": 1, "endTime": 2}', '{"startTime": "x"}', "7"])
async def test_a_spoilt_file_is_told_of_and_not_believed(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "graceful_node_shutdown_state").write_text(text)
    assert await ShutdownState(tmp_path).load() == (None, None)
    assert "cannot be read, and is not believed" in caplog.text
