"""Puts the three programs and libcudawrap.so into the wheel, if CUDAWRAP_PROGRAMS names their directory.
Without that variable the wheel is pure Python and uses the programs that the site has.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("getgpu", "cudawrap", "create-cudawrap")
LIBRARY = "libcudawrap.so"


class CustomBuildHook(BuildHookInterface[Any]):
    """The build hook that hatchling loads by this name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the files and the tag of the platform that they run on."""
        named = os.environ.get("CUDAWRAP_PROGRAMS")
        if not named or version == "editable":
            return
        directory = Path(named).resolve()
        missing = [name for name in PROGRAMS if not (directory / name).is_file()]
        if missing:
            raise FileNotFoundError(f"CUDAWRAP_PROGRAMS={directory}: no {', '.join(missing)} there: make build")
        build_data["shared_scripts"] = {str(directory / name): name for name in PROGRAMS}
        if (directory / LIBRARY).is_file():
            build_data["shared_data"] = {str(directory / LIBRARY): f"lib/getgpu/{LIBRARY}"}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['CUDAWRAP_PLATFORM']}"
