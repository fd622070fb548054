"""All functions there are."""

from typing import Final

from pykubelet.apiserver.cel import (
    functions,
    library_authorization,
    library_kubernetes,
    library_lists,
    library_net,
    library_standard,
    library_texts,
    library_times,
)

_LIBRARIES: Final = (
    library_authorization,
    library_kubernetes,
    library_lists,
    library_net,
    library_standard,
    library_texts,
    library_times,
)
"""Each has entered its functions by being here."""
FUNCTIONS: Final = functions.FUNCTIONS
