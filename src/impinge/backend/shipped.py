"""Kernels that were compiled when the package was built, in the package ``impinge_kernels``.

``tools/build_kernels.py`` runs the warm-up and the demo for a baseline processor and stores the compiled code with
a manifest: what it was built for, and the digests of the sources. A kernel is looked for in this folder, which is
read-only, then in the user's cache (``backend.cache``), then compiled.

Shipped code is used if nothing could make it differ from what would be compiled here:

- the same sources: the same hash of the package;
- the same Numba version and settings (``sources.code_flags``), Python version and platform;
- a processor with all features of the baseline, and no processor chosen by ``NUMBA_CPU_NAME`` or
  ``NUMBA_CPU_FEATURES``;
- not switched off by ``IMPINGE_SHIPPED_KERNELS=0``.

Otherwise kernels are compiled as if nothing had been shipped; ``impinge info`` states the reason. A kernel whose file
is damaged is compiled, too: the manifest has a hash of each file, since LLVM ends the process at damaged machine code.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path

import llvmlite.binding
import numba

from impinge.backend.sources import code_flags, package_digest

PACKAGE_NAME = "impinge_kernels"
X86_64_V3 = (
    "avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2",
    "ssse3", "xsave",
)  # fmt: skip
BASELINES: dict[str, tuple[str, tuple[str, ...]]] = {
    "x86_64": ("x86-64-v3", X86_64_V3),
    "AMD64": ("x86-64-v3", X86_64_V3),
    "aarch64": ("generic", ()),
    "arm64": ("generic", ()),
}
"""Processor that kernels are built for, as LLVM names it, and the features that it has, by ``platform.machine()``."""


@dataclass(frozen=True)
class ShippedKernels:
    """Where shipped kernels are, for which target, or the reason why they are not used."""

    folder: Path | None = None
    target: tuple[str, str, str] = ("", "", "")
    """Triple, processor and features, as Numba identifies a code generator."""
    refusal: str = ""
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of the modules of the package."""
    hashes: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file, by its path in the folder."""

    def read(self, path: Path) -> bytes:
        """The content of a file; ``FileNotFoundError`` if it was not shipped, ``ValueError`` if it is damaged."""
        name = path.relative_to(self.folder or path).as_posix()
        if name not in self.hashes:
            raise FileNotFoundError(name)
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.hashes[name]:
            raise ValueError(f"{path} is not the file that was shipped")
        return content

    def __str__(self) -> str:
        return f"shipped for {self.target[1]} ({self.folder})" if self.folder else f"not shipped: {self.refusal}"


def interpreter_tag() -> str:
    """Python version, operating system and architecture, for example ``cpython-311 Linux x86_64``."""
    return f"{sys.implementation.cache_tag} {platform.system()} {platform.machine()}"


@functools.cache
def shipped_kernels() -> ShippedKernels:
    """Find ``impinge_kernels`` and compare what it was built for with this process."""
    if os.environ.get("IMPINGE_SHIPPED_KERNELS", "1") in ("", "0"):
        return ShippedKernels(refusal="switched off by IMPINGE_SHIPPED_KERNELS")
    spec = importlib.util.find_spec(PACKAGE_NAME)
    if spec is None or spec.origin is None:
        return ShippedKernels(refusal="impinge-kernels is not installed; pip install 'impinge[kernels]'")
    folder = Path(spec.origin).parent
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        target = tuple(map(str, manifest["target"]))
        digests, hashes = dict(manifest["digests"]), dict(manifest["files"])
        built = {name: str(manifest[name]) for name in ("package", "flags", "interpreter")}
    except (OSError, ValueError, LookupError, TypeError) as error:
        return ShippedKernels(refusal=f"the manifest in {folder} is damaged ({error}); reinstall impinge-kernels")
    here = {"package": package_digest(), "flags": code_flags(), "interpreter": interpreter_tag()}
    refusal = ""
    if built["package"] != here["package"]:
        refusal = "impinge-kernels was built from other sources; install the versions of both that belong together"
    elif numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None:
        refusal = "NUMBA_CPU_NAME or NUMBA_CPU_FEATURES is set"
    elif built != here:
        name = "flags" if built["flags"] != here["flags"] else "interpreter"
        refusal = f"built for [{built[name]}], but this process has [{here[name]}]"
    else:
        features = llvmlite.binding.get_host_cpu_features()
        missing = [name for name in manifest.get("features", ()) if not features.get(name)]
        if missing:
            refusal = f"built for {target[1]}, but this processor lacks {', '.join(missing)}"
    if refusal:
        return ShippedKernels(refusal=refusal)
    return ShippedKernels(folder / "kernels", (target[0], target[1], target[2]), digests=digests, hashes=hashes)
