"""The union of moments is closed, can be written down and read back, and has no field that is only prose."""

from typing import get_args

import msgspec

from kit.moments import one_of_each
from kit.pods import make_pod
from pykubelet.pod import moments
from pykubelet.pod.claims import moments as claim_moments
from pykubelet.pod.container import volume_moments
from pykubelet.pod.devices import moments as device_moments
from pykubelet.pod.moments import Moment, about
from pykubelet.pod.resize import moments as resize_moments

FILES = (moments, claim_moments, device_moments, resize_moments, volume_moments)


def test_every_moment_of_the_file_is_one_of_the_union() -> None:
    kinds = {each for file in FILES for each in vars(file).values() if isinstance(each, type)}
    files = {file.__name__ for file in FILES}
    structs = {each for each in kinds if each.__module__ in files and issubclass(each, msgspec.Struct)}
    assert structs == set(get_args(Moment))
    assert len(structs) > 40


def test_each_belongs_to_one_theme() -> None:
    themes = (
        *(moments.Arrival, moments.Work, moments.Containers),
        *(moments.Probing, moments.Reporting, moments.OfNode, moments.OfApi),
        *(claim_moments.OfClaims, device_moments.OfDevices),
    )
    for moment in one_of_each():
        assert sum(isinstance(moment, theme) for theme in themes) == 1


def test_what_is_written_down_can_be_read_back() -> None:
    for moment in one_of_each(error="why"):
        assert msgspec.json.decode(msgspec.json.encode(moment), type=Moment) == moment


def test_a_moment_is_about_a_pod() -> None:
    whose = about(make_pod("web", namespace="shop"))
    assert (whose.uid, whose.namespace, whose.name) == ("uid-web", "shop", "web")
