"""Which controllers run, by upstream's words."""

import pytest

from pykubelet.apiserver.controllers.choice import chosen
from pykubelet.base.errors import Invalid

OURS = ("job-controller", "cronjob-controller", "pod-garbage-collector-controller", "kube-scheduler")


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        ("*", OURS),
        ("*,-kube-scheduler", OURS[:3]),
        ("-kube-scheduler,*", OURS[:3]),
        ("job-controller", ("job-controller",)),
        ("-job-controller", ()),
        ("*,-job,job", ("cronjob-controller", "pod-garbage-collector-controller", "kube-scheduler")),
        ("job,-job", ("job-controller",)),
        ("-*", ()),
        ("-*,job", ("job-controller",)),
        ("podgc", ("pod-garbage-collector-controller",)),
        ("*,bootstrapsigner,-nodeipam", OURS),
    ],
)
def test_the_first_word_about_one_counts_and_older_names_are_known(wanted: str, runs: tuple[str, ...]) -> None:
    assert chosen(wanted.split(","), OURS) == frozenset(runs)


@pytest.mark.parametrize("word", ["jobs", "-", "", "--job", "Job", "tokencleaner-controller"])
def test_a_word_that_is_no_controller_is_refused(word: str) -> None:
    with pytest.raises(Invalid, match="known controllers: cronjob-controller, job-controller"):
        chosen(("*", word), OURS)
