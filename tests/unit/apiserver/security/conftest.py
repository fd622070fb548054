import pytest

from unit.apiserver.security.pki_files import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
