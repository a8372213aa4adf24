"""Kernels that were compiled when the package was built, in the package ``impinge_kernels``.

``tools/build_kernels.py`` runs the warm-up and the demo for each target of ``TARGETS`` and stores the compiled code
with a manifest: what it was built for, and the digests of the sources. A kernel is looked for in this folder, which
is read-only, then in the user's cache (``backend.cache``), then compiled.

Targets. x86-64-v3 runs on Intel since 2013 and AMD since 2015. On processors with AVX-512, forces of soft bodies are a
sixth faster with vectors of 512 bits; these have a target of their own. It excludes the first generations, which lower
their clock for such vectors. All targets give the same bits.

Shipped code is used if nothing could make it differ from what would be compiled here:

- the same sources: the same hash of the package;
- the same Numba version and settings (``sources.code_flags``), Python version and platform;
- a processor with all features of a target, and none chosen by ``NUMBA_CPU_NAME`` or ``NUMBA_CPU_FEATURES``;
- not switched off by ``IMPINGE_SHIPPED_KERNELS=0``, which may also name a target.

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
from typing import NamedTuple

import llvmlite.binding
import numba

from impinge.backend.sources import code_flags, package_digest

PACKAGE_NAME = "impinge_kernels"


class Target(NamedTuple):
    """A kind of processor that kernels are shipped for."""

    processor: str
    """As LLVM names it."""
    tuning: str
    """Changes to the features that LLVM assumes of it."""
    required: tuple[str, ...]
    """Features that a processor must have."""


_V3 = (
    "avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2",
    "ssse3", "xsave",
)  # fmt: skip
_WIDE = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi2")
_X86_64 = (Target("x86-64-v4", "-prefer-256-bit", (*_V3, *_WIDE)), Target("x86-64-v3", "", _V3))
_ARM64 = (Target("generic", "", ()),)
TARGETS: dict[str, tuple[Target, ...]] = {"x86_64": _X86_64, "AMD64": _X86_64, "aarch64": _ARM64, "arm64": _ARM64}
"""Targets by ``platform.machine()``, the fastest first."""


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
    switch = os.environ.get("IMPINGE_SHIPPED_KERNELS", "1")
    if switch in ("", "0"):
        return ShippedKernels(refusal="switched off by IMPINGE_SHIPPED_KERNELS")
    if numba.config.DISABLE_JIT:
        return ShippedKernels(refusal="NUMBA_DISABLE_JIT is set, kernels run as Python")
    spec = importlib.util.find_spec(PACKAGE_NAME)
    if spec is None or spec.origin is None:
        return ShippedKernels(refusal="impinge-kernels is not installed; pip install 'impinge[kernels]'")
    folder = Path(spec.origin).parent
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        targets = []
        for each in manifest["targets"]:
            triple, processor, tuning = map(str, each["target"])
            targets.append(((triple, processor, tuning), set(each["required"])))
        digests, hashes = dict(manifest["digests"]), dict(manifest["files"])
        built = {name: str(manifest[name]) for name in ("package", "flags", "interpreter")}
    except (OSError, ValueError, LookupError, TypeError) as error:
        return ShippedKernels(refusal=f"the manifest in {folder} is damaged ({error}); reinstall impinge-kernels")
    here = {"package": package_digest(), "flags": code_flags(), "interpreter": interpreter_tag()}
    if built["package"] != here["package"]:
        why = "impinge-kernels was built from other sources; install the versions of both that belong together"
        return ShippedKernels(refusal=why)
    if numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None:
        return ShippedKernels(refusal="NUMBA_CPU_NAME or NUMBA_CPU_FEATURES is set")
    for name in ("flags", "interpreter"):
        if built[name] != here[name]:
            ours, others = (set(found[name].split(", ")) for found in (here, built))
            built_for, has = (", ".join(sorted(only)) for only in (others - ours, ours - others))
            return ShippedKernels(refusal=f"built for {built_for}, but this process has {has}")
    features = {name for name, has_it in llvmlite.binding.get_host_cpu_features().items() if has_it}
    lacks = ""
    for (triple, processor, tuning), required in targets:
        if switch not in ("1", processor):
            lacks = lacks or f"IMPINGE_SHIPPED_KERNELS is {switch!r}"
        elif required <= features:
            return ShippedKernels(folder / "kernels", (triple, processor, tuning), digests=digests, hashes=hashes)
        else:
            lacks = f"this processor lacks {', '.join(sorted(required - features))}"
    names = ", ".join(processor for (_, processor, _), _ in targets)
    return ShippedKernels(refusal=f"built for {names}, but {lacks}")
