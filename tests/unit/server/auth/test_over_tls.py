"""Who gets in, over real TLS."""

import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from kit.tls_files import Files, asked, served

DAY = timedelta(days=1)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def test_without_credentials_it_is_401(files: Files) -> None:
    async with served(files.settings) as api:
        assert await asked(api, files) == (401, "Unauthorized")


async def test_nobody_in_particular_where_allowed_is_still_forbidden(files: Files) -> None:
    async with served(files.settings, anonymous=True) as api:
        status, text = await asked(api, files)
        assert status == 403
        assert text.startswith(
            "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[pods proxy])"
        )


async def test_tokens_are_asked_about(files: Files) -> None:
    async with served(files.settings) as api:
        assert await asked(api, files, token="admin-token") == (200, "TLSv1.3")
        assert (await asked(api, files, token="other-token"))[0] == 403
        assert (await asked(api, files, token="nobodys"))[0] == 401


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_certificate_is_an_identity(files: Files, version: ssl.TLSVersion) -> None:
    async with served(files.settings) as api:
        assert (await asked(api, files, files.clients.issue("admin"), version=version))[0] == 200
        assert (await asked(api, files, files.clients.issue("other"), version=version))[0] == 403
