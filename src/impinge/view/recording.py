"""Recording of the live page as one html file, limited in size.

viser keeps a copy of every array that is drawn while a recording runs. ``Recording`` counts them after each frame. At
``RECORDING_BYTES`` it stops by itself: it encodes what was recorded, in a thread, and keeps the file until it is saved.
"""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import Any

RECORDING_BYTES = 500_000_000
"""Size limit of the drawn arrays; a minute of two bodies with 10,000 moving vertices each."""
MEGABYTE = 1e6


class Recording:
    """Frames of a page, from now on."""

    def __init__(self, server: Any, *, limit: int) -> None:
        self._frames = server.get_scene_serializer()
        self._limit = limit
        self._size = self._counted = 0
        self._file: Future[bytes] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the recording has stopped at its limit."""
        return self._file is not None

    @property
    def state(self) -> str:
        """What the page says about the recording."""
        if self.is_full:
            return f"recording stopped at {self._limit / MEGABYTE:g} MB, press Record to save it"
        return f"recording, {self._size / MEGABYTE:.1f} of {self._limit / MEGABYTE:g} MB"

    def end_frame(self, seconds: float) -> bool:
        """End a frame that is shown for ``seconds``; return whether this filled the recording."""
        if self.is_full:
            return False
        self._frames.insert_sleep(seconds)
        arrays = self._frames._binary_buffers
        self._size += sum(array.nbytes for array in arrays[self._counted :])
        self._counted = len(arrays)
        if self._size < self._limit:
            return False
        self._file = Future()
        Thread(target=self._encode, daemon=True).start()
        return True

    def html(self) -> bytes:
        """End the recording, if it has not stopped, and return its file."""
        if self._file is None:
            self._file = Future()
            self._encode()
        return self._file.result()

    def _encode(self) -> None:
        assert self._file is not None
        try:
            self._file.set_result(self._frames.as_html().encode("utf-8"))
        except BaseException as error:
            self._file.set_exception(error)
            raise
        finally:
            del self._frames
