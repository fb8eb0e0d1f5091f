"""Hatchling hook: a wheel brings the device's native library, compiled from its C source.

Without a C compiler the wheel has no library and serves any platform; the device then compiles
it when it is first used.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """See https://hatch.pypa.io/latest/plugins/build-hook/custom/."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if version == "editable" or compiler is None:
            return
        self.folder = tempfile.mkdtemp()
        library = Path(self.folder) / "libnkihlo_pjrt.so"
        source = Path(self.root) / "neff" / "device" / "pjrt" / "entry.c"
        command = [compiler, "-shared", "-fPIC", "-Os", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        build_data["force_include"][str(library)] = "neff/device/pjrt/libnkihlo_pjrt.so"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)
