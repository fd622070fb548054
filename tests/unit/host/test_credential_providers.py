"""Plug-ins are real programs here; what their answers are kept for runs on virtual time."""

import asyncio
import json
import logging
import os
import textwrap
from pathlib import Path

import pytest

from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.base.errors import Invalid
from pykubelet.host.credential_providers import CachingPlugin, CredentialProviders, load_credential_providers
from pykubelet.pod.images.credential_providers import Answer, Plugin
from pykubelet.pod.images.keyring import parse_pattern
from pykubelet.pod.ports.api import Keyring
from pykubelet.pod.ports.runtime import PullCredentials

V1 = "credentialprovider.kubelet.k8s.io/v1"
POD = make_pod()


class Folder:
    """A configuration and its programs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.bin = path / "bin"
        self.bin.mkdir()
        self.asked = path / "asked"

    def plugin(self, name: str, script: str, **fields: object) -> dict[str, object]:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{textwrap.dedent(script)}")
        program.chmod(0o755)
        fixed = {"name": name, "apiVersion": V1, "matchImages": ["*.example"], "defaultCacheDuration": "0s"}
        return {**fixed, **fields}

    def write(self, *providers: dict[str, object]) -> None:
        config = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": providers}
        self.config.write_text(json.dumps(config))

    def keyring(self, *, timeout: float = 60.0) -> Keyring:
        environ = {"PATH": os.environ["PATH"], "INHERITED": "yes", "ASKED": str(self.asked)}
        return load_credential_providers(str(self.config), str(self.bin), environ=environ, timeout=timeout)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def answer(password: str = "s3cret", key: str = "*.example", user: str = "u") -> str:
    auth = {key: {"username": user, "password": password}}
    said = {"kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": "Image", "auth": auth}
    return json.dumps(said)


def found(registries: tuple[PullCredentials, ...]) -> list[tuple[str, str]]:
    return [(each.username, each.password) for each in registries]


async def test_a_program_is_asked_with_arguments_environment_and_the_image(folder: Folder) -> None:
    script = f"""
        cat >$ASKED
        echo "$@ $INHERITED $REGION" >>$ASKED
        echo '{answer()}'
    """
    env = [{"name": "REGION", "value": "north"}]
    folder.write(folder.plugin("cloud", script, args=["get", "it"], env=env))
    assert found(await folder.keyring().credentials("r.example/team/app:1.2", POD)) == [("u", "s3cret")]
    asked, told = folder.asked.read_text().rsplit("}", 1)
    assert json.loads(asked + "}") == {
        "kind": "CredentialProviderRequest",
        "apiVersion": V1,
        "image": "r.example/team/app",
    }
    assert told.strip() == "get it yes north"


async def test_an_image_that_is_not_meant_for_a_plug_in_is_not_shown_to_it(folder: Folder) -> None:
    folder.write(folder.plugin("cloud", f"touch $ASKED; echo '{answer()}'"))
    keyring = folder.keyring()
    assert await keyring.credentials("registry.other/app", POD) == ()
    assert await keyring.credentials("Not An Image", POD) == ()
    assert not folder.asked.exists()


async def test_what_a_plug_in_gives_for_other_registries_is_not_used(folder: Folder) -> None:
    folder.write(folder.plugin("cloud", f"cat >/dev/null; echo '{answer(key='other.example')}'"))
    assert await folder.keyring().credentials("r.example/app", POD) == ()


async def test_several_plug_ins_are_tried_by_how_close_their_answers_are(folder: Folder) -> None:
    folder.write(
        folder.plugin("wide", f"echo '{answer(user='wide')}'"),
        folder.plugin("close", f"echo '{answer(key='r.example/team', user='close')}'"),
    )
    tried = found(await folder.keyring().credentials("r.example/team/app", POD))
    assert [user for user, _ in tried] == ["close", "wide"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo 's3cret {answer}' >&2; echo '{answer}'; exit 3", "ended with code 3; it complained:"),
        ("echo s3cret", "printed something else than a CredentialProviderResponse in JSON"),
        ("echo '{answer}' | sed s,/v1,/v1beta1,", "CredentialProviderResponse of credentialprovider.kubelet.k8s.io/v1"),
        ("head -c 2000000 /dev/zero", "printed more than 1 MiB"),
        ("yes s3cret | head -c 300000 >&2; echo '{answer}'; exit 1", "ended with code 1"),
        ("kill -9 $$", "ended with code -9"),
        ("exec sleep 1000", "did not finish within 0.5 s"),
        ("sleep 1000 & exit 0", "did not finish within 0.5 s"),
    ],
)
async def test_a_program_that_fails_gives_none_and_the_log_says_why_without_a_secret(
    folder: Folder, caplog: pytest.LogCaptureFixture, script: str, complaint: str
) -> None:
    folder.write(folder.plugin("cloud", script.replace("{answer}", answer())))
    keyring = folder.keyring(timeout=0.5 if "sleep" in script else 60.0)
    with caplog.at_level(logging.DEBUG):
        assert await keyring.credentials("r.example/app", POD) == ()
    (line,) = [each for each in caplog.messages if "credential provider" in each]
    assert line.startswith("credential provider cloud has no credentials for image r.example/app: it ")
    assert complaint in line
    assert len(line) < 1500
    assert "s3cret" not in caplog.text.replace("echo s3cret", "")


@pytest.mark.parametrize("end", ["wait", "exit 0"])
async def test_a_program_that_takes_too_long_is_ended_with_its_children(folder: Folder, end: str) -> None:
    folder.write(folder.plugin("cloud", f"sleep 1000 & echo $$ $! >$ASKED; {end}"))
    assert await folder.keyring(timeout=0.5).credentials("r.example/app", POD) == ()
    pids = folder.asked.read_text().split()
    assert len(pids) == 2
    await eventually(lambda: not any(_runs(pid) for pid in pids))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_program_that_vanished_is_told_of(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    folder.write(folder.plugin("cloud", "exit 0"))
    keyring = folder.keyring()
    (folder.bin / "cloud").unlink()
    assert await keyring.credentials("r.example/app", POD) == ()
    assert "cannot be run: No such file or directory" in caplog.text


# --- loading


def test_a_folder_of_files_is_put_together(folder: Folder) -> None:
    several = folder.path / "several"
    several.mkdir()
    for name in ("b.yaml", "a.json", "c.yml"):
        folder.write(folder.plugin(f"plugin-{name[0]}", "exit 0"))
        folder.config.rename(several / name)
    (several / "notes.txt").write_text("not a configuration")
    keyring = load_credential_providers(str(several), str(folder.bin))
    assert [each._plugin.name for each in keyring._plugins] == ["plugin-a", "plugin-b", "plugin-c"]


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("no bin", "--image-credential-provider-config needs --image-credential-provider-bin-dir, and has none"),
        ("no config", "--image-credential-provider-bin-dir needs --image-credential-provider-config, and has none"),
        ("missing config", "config.yaml: cannot be read: No such file or directory"),
        ("missing bin", "bin: there is no such folder of credential provider plug-ins"),
        ("missing program", "bin/cloud: there is no such program, but provider cloud needs it"),
        ("plain file", "bin/cloud: cannot be run; make it executable"),
        ("empty folder", "holds no file of credential providers; their names end with .json, .yaml, .yml"),
    ],
)
def test_what_cannot_work_is_told_at_once(folder: Folder, case: str, complaint: str) -> None:
    folder.write(folder.plugin("cloud", "exit 0"))
    config, programs = str(folder.config), str(folder.bin)
    match case:
        case "no bin":
            programs = ""
        case "no config":
            config = ""
        case "missing config":
            folder.config.unlink()
        case "missing program":
            (folder.bin / "cloud").unlink()
        case "missing bin":
            (folder.bin / "cloud").unlink()
            folder.bin.rmdir()
        case "plain file":
            (folder.bin / "cloud").chmod(0o644)
        case "empty folder":
            config = str(folder.path / "empty")
            Path(config).mkdir()
    with pytest.raises(Invalid) as raised:
        load_credential_providers(config, programs)
    assert complaint in str(raised.value)


# --- what is kept


class Asked:
    """A program that takes a second, and counts."""

    def __init__(self, **fields: object) -> None:
        self.images: list[str] = []
        self.fields = fields
        self.fault: ValueError | None = None

    async def __call__(self, repository: str) -> Answer:
        self.images.append(repository)
        await asyncio.sleep(1)
        if self.fault is not None:
            raise self.fault
        key = {"Image": repository, "Registry": repository.partition("/")[0], "Global": "<global>"}
        registry = PullCredentials(username=str(len(self.images)))
        seconds = self.fields.get("seconds", 0.0)
        assert isinstance(seconds, float)
        return Answer(entries=(("*.example", registry),), cache_key=key[str(self.fields["key"])], cache_for=seconds)


def asking(asked: Asked) -> CredentialProviders:
    plugin = Plugin(name="cloud", patterns=(parse_pattern("*.example"),))
    return CredentialProviders((CachingPlugin(plugin, asked),))


@pytest.mark.parametrize(
    ("key", "runs"),
    [
        ("Image", ["a.example/x", "a.example/y", "b.example/x"]),
        ("Registry", ["a.example/x", "b.example/x"]),
        ("Global", ["a.example/x"]),
    ],
)
def test_an_answer_holds_for_what_it_says(key: str, runs: list[str]) -> None:
    @virtual_time
    async def tell() -> None:
        asked = Asked(key=key, seconds=60.0)
        keyring = asking(asked)
        for image in ("a.example/x:1", "a.example/x:2", "a.example/y", "b.example/x", "a.example/x"):
            assert await keyring.credentials(image, POD)
        assert asked.images == runs

    tell()


@virtual_time
async def test_an_answer_holds_for_as_long_as_it_says() -> None:
    asked = Asked(key="Image", seconds=60.0)
    keyring = asking(asked)
    assert found(await keyring.credentials("a.example/x", POD)) == [("1", "")]
    await asyncio.sleep(59)
    assert found(await keyring.credentials("a.example/x", POD)) == [("1", "")]
    await asyncio.sleep(2)
    assert found(await keyring.credentials("a.example/x", POD)) == [("2", "")]


@virtual_time
async def test_those_who_ask_at_the_same_time_share_one_run_and_later_ones_do_not() -> None:
    asked = Asked(key="Image")
    keyring = asking(asked)
    together = await asyncio.gather(*(keyring.credentials("a.example/x", POD) for _ in range(10)))
    assert [found(each) for each in together] == [[("1", "")]] * 10
    assert found(await keyring.credentials("a.example/x", POD)) == [("2", "")]


@virtual_time
async def test_who_gives_up_takes_the_answer_from_nobody() -> None:
    asked = Asked(key="Image")
    keyring = asking(asked)
    first = asyncio.create_task(keyring.credentials("a.example/x", POD))
    await asyncio.sleep(0.5)
    second = asyncio.create_task(keyring.credentials("a.example/x", POD))
    await asyncio.sleep(0.1)
    first.cancel()
    assert found(await second) == [("2", "")]


@virtual_time
async def test_a_failure_is_not_kept() -> None:
    asked = Asked(key="Global", seconds=60.0)
    keyring = asking(asked)
    asked.fault = ValueError("ended with code 1")
    together = await asyncio.gather(*(keyring.credentials("a.example/x", POD) for _ in range(3)))
    assert together == [(), (), ()]
    assert len(asked.images) == 1
    asked.fault = None
    assert await keyring.credentials("a.example/x", POD)
