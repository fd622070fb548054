import logging

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.config import feature_gates
from pykubelet.config.feature_gates import known_gates, stages


def test_every_gate_of_upstreams_has_its_default_until_somebody_says_otherwise() -> None:
    gates = feature_gates.feature_gates({})
    assert len(gates) == 208
    assert gates == {name: gate.is_on for name, gate in known_gates().items()}
    assert gates["SystemdWatchdog"]
    assert not gates["MemoryQoS"]


def test_all_of_a_stage_can_be_turned_on_but_for_those_that_are_named() -> None:
    gates = feature_gates.feature_gates({"AllAlpha": True, "MemoryQoS": False})
    assert gates["KubeletCrashLoopBackOffMax"]
    assert not gates["MemoryQoS"]
    assert not gates["NodeLogQuery"]  # a beta


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        (
            {"MemoryQos": True},
            "featureGates: unrecognized feature gate: MemoryQos; did you mean MemoryQoS?",
        ),
        (
            {"NodeSwap": False},
            "featureGates: cannot set feature gate NodeSwap to false, feature is locked to true",
        ),
    ],
)
def test_a_gate_that_cannot_be_set_is_refused(wanted: dict[str, bool], fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        feature_gates.feature_gates(wanted)
    assert str(caught.value) == fault


def test_a_locked_gate_may_be_set_to_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    assert feature_gates.feature_gates({"NodeSwap": True})["NodeSwap"]
    feature_gates.tell({"NodeSwap": True})
    assert [record.getMessage() for record in caplog.records] == [
        "feature gate NodeSwap=true: upstream will remove it, for it is GA"
    ]


def test_a_gate_that_changes_nothing_here_is_told(caplog: pytest.LogCaptureFixture) -> None:
    wanted = {"MemoryQoS": True, "AllBeta": True, "ContextualLogging": True, "KubeletPSI": False}
    feature_gates.tell(wanted | {"ComponentFlagz": True, "EventedPLEG": False, "SystemdWatchdog": False})
    told = [(record.levelno, record.getMessage().replace("feature gate ", "")) for record in caplog.records]
    assert told == [
        (
            logging.WARNING,
            f"AllBeta=true: it turns on only what this agent can do: {', '.join(feature_gates.SWITCHES)}",
        ),
        (logging.WARNING, "EventedPLEG=false has no effect: here it is always on"),
        (logging.WARNING, "KubeletPSI=false has no effect: here it is always on"),
        (logging.WARNING, "MemoryQoS=true has no effect: here it is always off"),
    ]


def test_every_switch_is_a_gate_of_upstreams() -> None:
    assert feature_gates.SWITCHES.keys() | feature_gates.ALWAYS_ON <= known_gates().keys()


def test_stages_are_written_as_in_upstreams_metric() -> None:
    assert {stages()[name] for name in ("NodeSwap", "MemoryQoS", "SystemdWatchdog", "KMSv1")} == {
        *("", "ALPHA", "BETA", "DEPRECATED")
    }
