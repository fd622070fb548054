"""What can be wrong with a patch, with the HTTP status that says so."""

from typing import Final

from pykubelet.base.errors import Invalid

BAD_REQUEST: Final = 400
TOO_LARGE: Final = 413
UNPROCESSABLE: Final = 422
INTERNAL: Final = 500  # what an API server answers to a patch that contradicts itself


class PatchRefused(Invalid):
    """The patch cannot be applied, now or later, to this object."""

    def __init__(self, message: str, code: int = BAD_REQUEST) -> None:
        super().__init__(message)
        self.code = code
