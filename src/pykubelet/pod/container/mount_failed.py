"""A volume that could not be made, in upstream's words: people look for them."""

from pykubelet.base.errors import PykubeletError, Retry


class MountFailed(Retry):
    """Whatever it is, it may be mended from outside: an object that is missing now may be there later."""

    def __init__(self, volume: str, error: PykubeletError) -> None:
        after = error.after if isinstance(error, Retry) else None
        self.volume = volume
        super().__init__(f'MountVolume.SetUp failed for volume "{volume}" : {error}', after=after)
