"""Config maps and secrets in the manifest folder."""

from pathlib import Path

import pytest

from kit.virtual_time import virtual_time
from pykubelet.api.objects import Secret
from pykubelet.api.rules.well_known import SOURCE_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.pod_update import Listed
from pykubelet.sources.static_objects import StaticObjects
from unit.sources.followed_files import AT_ONCE, becomes, faults, followed, manifest

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: '%s'}\n"


def needy(image: str = "nginx:1") -> str:
    return manifest("web", image).replace("spec: {", "spec: {imagePullSecrets: [{name: s}], ")


async def value(objects: StaticObjects, event: Listed) -> bytes:
    annotated = {SOURCE_ANNOTATION: "file"}
    pod = event.pods[0]
    found: Secret = await objects.secret(changed(pod, metadata=changed(pod.metadata, annotations=annotated)), "s")
    return found.data["k"]


@virtual_time
async def test_a_pod_waits_for_its_secret_and_goes_on_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects = StaticObjects()
    (tmp_path / "web.yaml").write_text(needy())
    async with followed(tmp_path, objects=objects) as view:
        refused = "static pods may not reference secrets that are not in the manifest folder: there is no 's'"
        assert not view.pods
        (told,) = faults(caplog)
        assert told == f"{tmp_path}/web.yaml:4:27: spec.imagePullSecrets[0]: {refused}"
        secret = tmp_path / "secret.yaml"
        secret.touch(mode=0o600)
        secret.write_text(SECRET % "one")
        event = await view.next(within=AT_ONCE)
        assert isinstance(event, Listed)
        assert await value(objects, event) == b"one"
        secret.write_text(SECRET % "two")
        await view.silence(5)
        assert await value(objects, event) == b"two"
        assert faults(caplog) == []
        secret.unlink()
        await view.silence(100)
        assert [pod.metadata.name for pod in view.pods.values()] == ["web-n1"], "it runs and goes on"
        (told,) = faults(caplog)
        assert told.endswith(refused)
        (tmp_path / "web.yaml").write_text(needy("nginx:2"))
        await becomes(view)


@virtual_time
async def test_a_secret_that_everybody_may_read_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{needy()}---\n{SECRET % 'x'}")
    file.chmod(0o644)
    async with followed(tmp_path) as view:
        assert len(view.pods) == 1
        told = [f"{file}: holds a secret that everybody on this machine may read: chmod 600 it"]
        assert faults(caplog) == told
        await view.silence(100)
        file.chmod(0o600)
        await view.silence(100)
        assert faults(caplog) == []
        file.chmod(0o604)
        await view.silence(100)
        assert faults(caplog) == told


@virtual_time
async def test_an_object_belongs_to_the_first_file_that_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects = StaticObjects()
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").touch(mode=0o600)
        (tmp_path / f"{name}.yaml").write_text(SECRET % name)
    (tmp_path / "web.yaml").write_text(needy())
    async with followed(tmp_path, objects=objects) as view:
        event = Listed(tuple(view.pods.values()))
        assert await value(objects, event) == b"a"
        assert faults(caplog) == [f"{tmp_path}/b.yaml: secret default/s is ignored: it is defined before"]
        (tmp_path / "a.yaml").unlink()
        await view.silence(5)
        assert await value(objects, event) == b"b"


@virtual_time
async def test_a_secret_that_breaks_keeps_its_last_good_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects = StaticObjects()
    secret = tmp_path / "s.yaml"
    secret.touch(mode=0o600)
    secret.write_text(SECRET % "good")
    (tmp_path / "web.yaml").write_text(needy())
    async with followed(tmp_path, objects=objects) as view:
        secret.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: [hidden]}\n")
        await view.silence(5)
        assert await value(objects, Listed(tuple(view.pods.values()))) == b"good"
        (told,) = faults(caplog)
        assert "hidden" not in told
