import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from pykubelet.base.log import LogFormat, configure_logging, set_verbosity

FORGED = "2026-01-01T00:00:00.000Z INFO    app: all is well"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO   |WARNING|ERROR  |DEBUG  ) ([a-z_.]+): (.*)")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("pykubelet")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


def logged_to(format: LogFormat = "text", verbosity: int = 2) -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    configure_logging(verbosity=verbosity, format=format, stream=stream)
    return logging.getLogger("pykubelet.sources.files"), stream


def log_an_error(log: logging.Logger, text: str) -> None:
    try:
        raise OSError(text)
    except OSError:
        log.exception("failed")


def test_a_line_has_a_time_a_level_a_room_and_a_message() -> None:
    log, stream = logged_to()
    log.warning("pod %s is %s", "web", "gone")
    match = LINE.fullmatch(stream.getvalue().rstrip("\n"))
    assert match is not None
    assert match.groups() == ("WARNING", "sources.files", "pod web is gone")


@pytest.mark.parametrize(
    "line_break", ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_text_from_outside_cannot_forge_a_line(line_break: str) -> None:
    log, stream = logged_to()
    log.error("pod %s", f"web{line_break}{FORGED}")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(FORGED)
    assert line.count("Z ") == 2


def test_text_from_outside_cannot_drive_a_terminal() -> None:
    log, stream = logged_to()
    log.error("%s", "\x1b[2J\x9b2J\x07\x7f")
    assert "\\x1b[2J\\x9b2J\\x07\\x7f\n" in stream.getvalue()


def test_a_traceback_follows_its_line_indented() -> None:
    log, stream = logged_to()
    log_an_error(log, "disk on fire")
    first, *rest = stream.getvalue().splitlines()
    assert LINE.fullmatch(first)
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    OSError: disk on fire"


@pytest.mark.parametrize("line_break", ["\n", "\r", "\x85", "\u2028"])
def test_the_text_of_an_error_cannot_forge_a_line(line_break: str) -> None:
    log, stream = logged_to()
    log_an_error(log, f"disk{line_break}{FORGED}")
    assert [bool(LINE.match(line)) for line in stream.getvalue().splitlines()].count(True) == 1


def test_letters_of_any_language_are_shown_as_they_are() -> None:
    log, stream = logged_to()
    log.info("Grüße an %s\tÖ", "网站")
    assert stream.getvalue().endswith(": Grüße an 网站\tÖ\n")


def test_json_lines_have_one_object_each() -> None:
    log, stream = logged_to("json")
    log.info("pod %s", f"web\n{FORGED}\x85\u2028\x9b ö")
    log_an_error(log, "disk\non fire")
    told, failed = (json.loads(line) for line in stream.getvalue().splitlines())
    assert set(told) == {"ts", "level", "logger", "msg"}
    assert (told["level"], told["logger"]) == ("info", "sources.files")
    assert told["msg"] == f"pod web\n{FORGED}\x85\u2028\x9b ö"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["ts"])
    assert (failed["level"], failed["msg"]) == ("error", "failed")
    assert failed["traceback"].endswith("OSError: disk\non fire")


@pytest.mark.parametrize(("verbosity", "shown"), [(0, False), (3, False), (4, True), (10, True)])
def test_from_verbosity_four_on_it_shows_how(verbosity: int, shown: bool) -> None:
    log, stream = logged_to(verbosity=verbosity)
    log.info("what happens")
    log.debug("how")
    assert "what happens" in stream.getvalue()
    assert ("how" in stream.getvalue()) is shown


def test_of_the_libraries_only_warnings_are_shown() -> None:
    _, stream = logged_to(verbosity=4)
    logging.getLogger("aiohttp.client").info("chatter")
    logging.getLogger("aiohttp.client").warning("trouble")
    assert "chatter" not in stream.getvalue()
    assert "trouble" in stream.getvalue()


def test_configuring_twice_does_not_say_everything_twice() -> None:
    logged_to()
    log, stream = logged_to()
    log.info("once")
    assert stream.getvalue().count("once") == 1


def test_single_modules_may_tell_more_or_less_than_all_others() -> None:
    stream = io.StringIO()
    configure_logging(verbosity=2, modules={"test_*": 5, "pykubelet/node/*": 4}, stream=stream)
    logging.getLogger("pykubelet.anything").debug("by the file's name")
    logging.getLogger("pykubelet.node.prober").debug("by the path")
    quiet = logging.getLogger("pykubelet.kube.watch")
    quiet.handle(quiet.makeRecord(quiet.name, logging.DEBUG, "/src/watch.py", 1, "how", (), None))
    quiet.handle(quiet.makeRecord(quiet.name, logging.INFO, "/src/watch.py", 1, "what", (), None))
    assert [line.rpartition(": ")[2] for line in stream.getvalue().splitlines()] == [
        *("by the file's name", "by the path", "what"),
    ]
    set_verbosity(4)
    quiet.handle(quiet.makeRecord(quiet.name, logging.DEBUG, "/src/watch.py", 1, "how", (), None))
    assert stream.getvalue().endswith(": how\n")
