import logging

import pytest

from kit.moments import one_of_each
from pykubelet.base.journal import About
from pykubelet.node.journal_log import is_worth_a_line, log_moment
from pykubelet.pod import moments as m

NAME = "pykubelet.node.journal_log"


def read(*moments: m.Moment, about: About) -> None:
    journal = m.Journal()
    journal.read_by(log_moment)
    for moment in moments:
        journal.note(moment, about)


def test_every_moment_is_known_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=NAME)
    read(*one_of_each(), *one_of_each(error="why"), about=About())
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]
    lines = sum(map(is_worth_a_line, (*one_of_each(), *one_of_each(error="why"))))
    assert len(caplog.records) == lines > 40


def test_a_line_says_whose_it_is_and_what_it_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=NAME)
    read(m.Rejected("OutOfcpu", "too small"), m.RuntimeCalled("Version", 0.1), about=About("u", "default", "web"))
    assert [record.getMessage() for record in caplog.records] == [
        "default/web: Rejected(reason='OutOfcpu', message='too small')"
    ]


def test_without_somebody_who_turned_the_log_up_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=NAME)
    read(m.Rejected("OutOfcpu", "too small"), about=About("u", "default", "web"))
    assert not caplog.records
