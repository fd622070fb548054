import os
from pathlib import Path
from typing import Any

import pytest

from pykubelet.pod.container.labels import TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.termination import termination_message

INSIDE = "/dev/termination-log"


class Ended:
    """A container that has ended, with a file for its last words and a log."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "words"
        self.log = folder / "0.log"
        self.file.touch()

    def says(self, *, policy: str = "FallbackToLogsOnError", path: str = INSIDE, **fields: Any) -> str:
        status = cri.ContainerStatus(
            annotations={TERMINATION_MESSAGE_PATH: path, TERMINATION_MESSAGE_POLICY: policy},
            mounts=[cri.Mount(container_path=INSIDE, host_path=str(self.file))],
            log_path=str(self.log),
            **{"exit_code": 1, "reason": "Error", **fields},
        )
        return termination_message(status)


@pytest.fixture
def ended(tmp_path: Path) -> Ended:
    made = Ended(tmp_path)
    made.log.write_text("t stdout F from the log\n")
    return made


def test_of_long_last_words_the_end_is_kept(ended: Ended) -> None:
    ended.file.write_text("a" * 5000 + "end")
    assert ended.says() == "a" * 4093 + "end"


def test_the_log_counts_for_a_failure_without_last_words_where_the_pod_wants_so(ended: Ended) -> None:
    assert ended.says() == "from the log\n"
    assert ended.says(policy="File") == ""
    ended.file.write_text("words")
    assert ended.says() == "words"


@pytest.mark.parametrize(
    "fields", [{"exit_code": 0, "reason": "Completed"}, {"exit_code": 128, "reason": "ContainerCannotRun"}]
)
def test_the_log_does_not_count_for_a_success_or_what_never_ran(ended: Ended, fields: dict[str, Any]) -> None:
    assert ended.says(**fields) == ""
    ended.file.write_text("words")
    assert ended.says(**fields) == "words"


@pytest.mark.parametrize("path", ["dev/termination-log", "/dev/termination-log"])
def test_a_path_that_is_not_absolute_begins_at_the_root(ended: Ended, path: str) -> None:
    ended.file.write_text("words")
    assert ended.says(path=path) == "words"


@pytest.mark.parametrize("path", ["", "/elsewhere"])
def test_without_a_file_for_last_words_the_log_is_left(ended: Ended, path: str) -> None:
    ended.file.write_text("words")
    assert ended.says(path=path) == "from the log\n"


def test_no_file_makes_the_agent_wait_or_leads_it_astray(ended: Ended, tmp_path: Path) -> None:
    ended.file.unlink()
    assert ended.says() == "from the log\n"
    (tmp_path / "secret").write_text("secret")
    ended.file.symlink_to(tmp_path / "secret")
    assert ended.says(policy="File") == ""
    ended.file.unlink()
    os.mkfifo(ended.file)
    assert ended.says(policy="File") == ""
    ended.log.unlink()
    assert ended.says() == ""


def test_what_is_no_text_becomes_text(ended: Ended) -> None:
    ended.file.write_bytes(b"caf\xe9")
    assert ended.says() == "caf�"
