"""Build the wheel ``impinge-kernels``: kernels of ``impinge``, compiled for common processors of this platform.

    python tools/build_kernels.py dist/wheels          # after the wheel of impinge was built there

1. Unpack the wheel of impinge: what is compiled is what is shipped, to the byte.
2. For each target of ``backend.shipped`` (x86-64-v3 and v4 on x86-64), run the warm-up, threaded variants included,
   and the demo, all with one cache, empty at first. ``NUMBA_CPU_FEATURES`` must be set, even if it is empty: Numba
   would add the features of this processor to those of the named one.
3. Keep the machine code of the kernels that Python calls. Bitcode of their callees, which serves to compile further
   kernels, is left out: a third of the size.
4. Write the manifest and the wheel. It requires the exact versions of impinge and Numba, and has the tags of the
   installed Numba: the code calls nothing but what Numba's own libraries provide.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distribution, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from impinge.backend.shipped import Target

HERE = Path(__file__).resolve().parent
MANIFEST = """
import json, sys
from numba.core.registry import cpu_target
from impinge.backend import shipped, sources
from impinge.backend.numba_0_68 import Dispatcher  # refuses any other version of Numba

json.dump({
    "package": sources.package_digest(),
    "flags": sources.code_flags(),
    "interpreter": shipped.interpreter_tag(),
    "target": cpu_target.target_context.codegen().magic_tuple(),
    "digests": sources.make_manifest(),
}, sys.stdout)
"""
PROJECT = """
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "impinge-kernels"
version = "{version}"
description = "Kernels of impinge, compiled for {targets}"
license = "MIT"
requires-python = "=={python}.*"
dependencies = ["impinge=={version}", "numba=={numba}"]

[tool.hatch.build.targets.wheel]
packages = ["impinge_kernels"]
artifacts = ["impinge_kernels/**"]

[tool.hatch.build.targets.wheel.hooks.custom]
path = "tag_hook.py"
"""
INIT = '"""Compiled kernels of impinge; ``impinge.backend.shipped`` finds and loads them."""\n'


def environments(source: Path, cache: Path) -> dict[Target, dict[str, str]]:
    """Variables under which kernels of the package in ``source`` are compiled into ``cache``, for each target."""
    from impinge.backend.shipped import TARGETS

    if platform.machine() not in TARGETS:
        sys.exit(f"no target is defined for {platform.machine()}; add one to impinge.backend.shipped")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "IMPINGE_"))}
    plain |= {"PYTHONPATH": str(source), "IMPINGE_CACHE_DIR": str(cache), "IMPINGE_SHIPPED_KERNELS": "0"}
    return {
        target: {**plain, "NUMBA_CPU_NAME": target.processor, "NUMBA_CPU_FEATURES": target.tuning}
        for target in TARGETS[platform.machine()]
    }


def write_package(compiled: dict[Target, dict[str, str]], package: Path) -> dict[str, object]:
    """Write the package ``impinge_kernels`` from kernels compiled under these variables; return its manifest."""
    targets = []
    for target, environment in compiled.items():
        found: dict[str, object] = json.loads(
            subprocess.check_output([sys.executable, "-c", MANIFEST], env=environment)
        )
        targets.append({"target": found.pop("target"), "required": target.required})
    manifest = {**found, "targets": targets}
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    kernels = Path(environment["IMPINGE_CACHE_DIR"]) / "kernels"
    hashes = {}
    for file in sorted([*kernels.glob("*/*.nbi"), *kernels.glob("*/*.nbc")]):
        if "-called." in file.name:
            continue
        target = package / "kernels" / file.relative_to(kernels)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        hashes[file.relative_to(kernels).as_posix()] = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest["files"] = hashes
    (package / "manifest.json").write_text(json.dumps(manifest))
    (package / "__init__.py").write_text(INIT)
    return manifest


def main() -> None:
    """Build the wheel into the folder that holds the wheel of impinge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="holds the wheel of impinge, receives that of impinge-kernels")
    folder: Path = parser.parse_args().folder.resolve()
    wheels = sorted(folder.glob("impinge-*-py3-none-any.whl"))
    if len(wheels) != 1:
        sys.exit(f"found {len(wheels)} wheels of impinge in {folder}, expected one; run `make wheels`")
    with tempfile.TemporaryDirectory(prefix="impinge-kernels-") as scratch:
        project, source = Path(scratch, "project"), Path(scratch, "source")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(source)
            (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            number = email.message_from_bytes(wheel.read(metadata))["Version"]
        sys.path.insert(0, str(source))
        compiled = environments(source, Path(scratch, "cache"))
        impinge = [sys.executable, "-m", "impinge"]
        for target, environment in compiled.items():
            print(f"compiling for {target.processor}", flush=True)  # noqa: T201 - the output of the script
            subprocess.run([*impinge, "warmup", "--threads"], env=environment, check=True, cwd=scratch)
            subprocess.run([*impinge, "demo"], env=environment, check=True, cwd=scratch, stdout=subprocess.DEVNULL)
        manifest = write_package(compiled, project / "impinge_kernels")
        text = PROJECT.format(
            version=number,
            numba=version("numba"),
            python=f"{sys.version_info.major}.{sys.version_info.minor}",
            targets=" and ".join(target.processor for target in compiled),
        )
        (project / "pyproject.toml").write_text(text)
        shutil.copyfile(HERE / "tag_hook.py", project / "tag_hook.py")
        tags = email.message_from_string(distribution("numba").read_text("WHEEL") or "").get_all("Tag", [])
        tag = f"{tags[0].rpartition('-')[0]}-{'.'.join(each.rpartition('-')[2] for each in tags)}"
        build = [
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            str(folder),
            str(project),
        ]
        subprocess.run([sys.executable, "-m", *build], env={**os.environ, "IMPINGE_KERNELS_TAG": tag}, check=True)
    (built,) = folder.glob(f"impinge_kernels-{number}-*.whl")
    files = manifest["files"]
    count = len(files) if isinstance(files, dict) else 0
    print(f"{built.name}: {count} files, {built.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - the output of the script


if __name__ == "__main__":
    main()
