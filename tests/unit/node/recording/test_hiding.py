import base64
import json

import pytest

from kit.recorded import PLANTED, planted_objects, secret_pod
from pykubelet.api import codec
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.node.recording.hiding import Hiding
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.images.pull_secrets import credentials_for
from pykubelet.pod.lifecycle.pod_update import Applied, Listed
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import PullCredentials

HIDING = Hiding(b"k" * 32)


def test_a_pod_keeps_what_is_decided_by_and_nothing_that_may_be_secret() -> None:
    pod = secret_pod("web")
    hidden = HIDING.value(Applied(pod)).pod
    assert b"Pl4nted" not in codec.encode(hidden)
    assert container_hash(hidden.spec.containers[0]) == container_hash(pod.spec.containers[0])
    assert [each.name for each in hidden.spec.containers[0].env] == ["PASSWORD", "PLAIN", "BOTH"]
    assert hidden.spec.containers[0].command[0] == "app"
    assert hidden.metadata.annotations.keys() == pod.metadata.annotations.keys()


def test_what_drivers_of_volumes_are_told_stays_between_the_two() -> None:
    volumes = [
        {"name": "a", "csi": {"driver": "d.example", "volumeAttributes": {"password": "Pl4nted"}}},
        {"name": "b", "flexVolume": {"driver": "d/e", "options": {"password": "Pl4nted"}}},
    ]
    pod = codec.convert(Pod, {"spec": {"containers": [], "volumes": volumes}})
    hidden = codec.encode(HIDING.value(Applied(pod)))
    assert b"Pl4nted" not in hidden
    assert b"d.example" in hidden


def test_what_device_plug_ins_give_to_containers_is_named_and_not_told() -> None:
    given = ContainerDevices(env={"LICENSE": "Pl4nted"}, annotations={"a": "Pl4nted"}, cdi_devices=("v.com/c=d",))
    hidden = HIDING.value(given)
    assert b"Pl4nted" not in codec.encode(hidden)
    assert (hidden.env.keys(), hidden.cdi_devices) == ({"LICENSE"}, given.cdi_devices)


def test_what_was_equal_stays_equal_and_what_differed_differs() -> None:
    pod = secret_pod("web")
    other = changed(pod, metadata=changed(pod.metadata, annotations={"example.com/note": "another"}))
    one, same, differs = (HIDING.value(Listed((each,))).pods[0] for each in (pod, pod, other))
    assert one == same
    assert one.metadata.annotations != differs.metadata.annotations


def test_annotations_of_kubernetes_are_decided_by_and_stay() -> None:
    pod = secret_pod("web")
    own = {"kubernetes.io/config.source": "api", "container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
    hidden = HIDING.value(changed(pod, metadata=changed(pod.metadata, annotations=own)))
    assert hidden.metadata.annotations == own


def test_nobody_who_guesses_can_check_it() -> None:
    assert Hiding(b"a" * 32).text("hunter2") != Hiding(b"b" * 32).text("hunter2")
    assert "hunter2" not in HIDING.text("hunter2")


@pytest.mark.parametrize("length", [1, 4, 8, 19, 20, 64, 200])
def test_what_stands_there_instead_is_as_long(length: int) -> None:
    assert len(HIDING.text("x" * length)) == max(length, 4)


def test_pull_secrets_offer_as_many_logins_for_the_same_servers() -> None:
    auth = base64.b64encode(b"robot:Pl4nted-basic").decode()
    entries = {
        "registry.example": {"auth": auth},
        "registry.example/team": {"username": "u", "password": "Pl4nted-2"},
        "broken.example": {"auth": "%%%"},
        "no-colon.example": {"auth": base64.b64encode(b"Pl4nted").decode()},
        "token.example": {"identitytoken": "Pl4nted-token"},
        "odd.example": 7,
    }
    data = json.dumps({"auths": entries}).encode()
    secret = Secret(
        metadata=ObjectMeta(name="s"), type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": data}
    )
    hidden = HIDING.value(secret)
    assert b"Pl4nted" not in hidden.data[".dockerconfigjson"]
    for image in ("registry.example/team/app", "registry.example/a", "broken.example/a", "no-colon.example/a",
                  "token.example/a", "odd.example/a", "elsewhere.example/a"):  # fmt: skip
        assert len(credentials_for(image, [hidden])) == len(credentials_for(image, [secret])), image


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"auths":[]}', b"\xff"])
def test_a_pull_secret_that_cannot_be_read_offers_none_either_way(data: bytes) -> None:
    secret = Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": data})
    assert credentials_for("a.example/b", [HIDING.value(secret)]) == credentials_for("a.example/b", [secret]) == ()


def test_a_secret_that_somebody_repeats_is_hidden_there_too() -> None:
    hiding = Hiding(b"k" * 32)
    hiding.value(planted_objects().secrets["login"])
    hiding.value((PullCredentials(username="robot", password='qu"oted\n1'),))
    line = codec.encode({"message": f'cannot log in with {PLANTED["env of a secret"]} or qu"oted\n1'})
    assert b"Pl4nted" not in hiding.line(line)
    assert b"oted" not in hiding.line(line)
    assert codec.decode_any(hiding.line(line))["message"].startswith("cannot log in with ")


def test_a_word_that_may_be_anything_is_not_taken_for_a_secret() -> None:
    hiding = Hiding(b"k" * 32)
    hiding.value(Secret(data={"db": b"postgres", "port": b"54325432", "flag": b"true"}))
    assert hiding.line(b"postgres 54325432 true") == b"postgres 54325432 true"


def test_bytes_that_are_no_text_stay_so() -> None:
    hidden = HIDING.value(Secret(data={"key": b"\xff\xfe\x00"}))
    with pytest.raises(UnicodeDecodeError):
        hidden.data["key"].decode()
