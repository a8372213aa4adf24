"""Build hook of ``impinge-kernels``: the wheel is for one Python version and platform, given by the environment."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TagHook(BuildHookInterface):  # type: ignore[type-arg]
    """Set the tag of the wheel, for example ``cp311-cp311-manylinux_2_28_x86_64``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface of hatchling
        """Called before the wheel is written."""
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["IMPINGE_KERNELS_TAG"]
