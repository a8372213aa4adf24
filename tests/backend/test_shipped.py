"""Kernels that were compiled when the package was built: used where they fit, and compiled where they do not."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite.binding
import numba
import pytest

import impinge
from impinge.backend import shipped
from impinge.backend.sources import IS_PLAIN
from tools import build_kernels

pytestmark = [
    pytest.mark.skipif(IS_PLAIN, reason="shipped kernels are for Numba 0.68"),
    pytest.mark.skipif(platform.machine() not in shipped.TARGETS, reason="no target for this architecture"),
]

SOURCE = Path(impinge.__file__).parents[1]
PROBE = """
import json
import numpy as np
from impinge.backend import jit, shipped
from impinge.backend.clock import monotonic_ns
from impinge.backend.scan import exclusive_scan

assert monotonic_ns() > 0
for variant in ("serial", "parallel"):
    with jit.launch_always(variant):
        assert exclusive_scan(np.arange(5)).tolist() == [0, 0, 1, 3, 6, 10]
print(json.dumps([len(jit.compilations), shipped.shipped_kernels().refusal]))
"""


def run(environment: dict[str, str]) -> tuple[int, str]:
    """Run a few kernels in a new process; return how many functions it compiled, and why shipped ones are not used."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    compiled, refusal = json.loads(done.stdout)
    return compiled, refusal


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A package with the kernels of ``PROBE``, made by the functions that make the wheel."""
    folder = tmp_path_factory.mktemp("shipped")
    environments = build_kernels.environments(SOURCE, folder / "baked")
    last = dict(list(environments.items())[-1:])  # it runs on any machine
    for environment in last.values():
        compiled, refusal = run(environment)
        assert compiled > 3
        assert "switched off" in refusal
    build_kernels.write_package(last, folder / "impinge_kernels")
    return folder / "impinge_kernels"


def user(package: Path, cache: Path, **more: str) -> dict[str, str]:
    """The environment of a user with the package installed and a cache in ``cache``."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "IMPINGE_"))}
    return {
        **plain,
        "PYTHONPATH": os.pathsep.join([str(SOURCE), str(package.parent)]),
        "IMPINGE_CACHE_DIR": str(cache),
        **more,
    }


def copy_of(package: Path, folder: Path) -> Path:
    """A copy that a test may damage."""
    build_kernels.shutil.copytree(package, folder / "impinge_kernels")
    return folder / "impinge_kernels"


def test_nothing_is_compiled_or_written(package, tmp_path):
    """Load every kernel from the package, serial and threaded, without touching the user's cache."""
    before = {file: file.stat().st_mtime_ns for file in package.rglob("*")}

    assert run(user(package, tmp_path / "cache")) == (0, "")
    assert not (tmp_path / "cache").exists()
    assert before == {file: file.stat().st_mtime_ns for file in package.rglob("*") if "__pycache__" not in file.parts}


def test_callees_are_not_shipped(package):
    """Leave out the bitcode of functions that only compiled code calls."""
    files = [file.name for file in package.glob("kernels/*/*")]

    assert any("-parallel." in name for name in files)
    assert not any("-called." in name for name in files)


@pytest.mark.parametrize("setting", ["NUMBA_BOUNDSCHECK=1", "NUMBA_OPT=1", "NUMBA_CPU_NAME=generic"])
def test_other_settings_compile(package, tmp_path, setting):
    """Compile under bounds checks, another optimisation level or a chosen processor, then find it in the cache."""
    name, value = setting.split("=")
    environment = user(package, tmp_path, **{name: value})

    compiled, refusal = run(environment)
    assert compiled > 3
    assert ("NUMBA_CPU_NAME" if name == "NUMBA_CPU_NAME" else f"{name[6:]}={value}") in refusal
    assert run(environment) == (0, refusal)


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_damaged_files_are_compiled(package, tmp_path, kind):
    """Compile what cannot be read, keep it for the user, and leave the user's other kernels alone."""
    broken = copy_of(package, tmp_path)
    cache = tmp_path / "cache"
    everything = user(package, cache, IMPINGE_SHIPPED_KERNELS="0")
    assert run(everything)[0] > 3
    own = {file: file.read_bytes() for file in cache.rglob("*.nb?")}
    files = sorted(broken.rglob(f"*.{kind}"))
    assert len(files) > 2
    for number, file in enumerate(files):  # one bit of the code, all but the beginning, or the whole file
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content if number % 3 == 0 else content[:40])
        if number % 3 == 2:
            file.unlink()

    assert run(user(broken, cache)) == (0, "")  # from the user's cache, which was filled above
    assert own == {file: file.read_bytes() for file in cache.rglob("*.nb?")}
    assert run(user(broken, tmp_path / "empty"))[0] > 3
    assert run(user(broken, tmp_path / "empty")) == (0, "")


def target(processor: str, *required: str) -> dict[str, object]:
    return {"target": ["triple", processor, ""], "required": required}


@pytest.fixture
def manifest(monkeypatch, tmp_path):
    """A package on the path of this process, with a manifest that fits, to be written with changes."""
    folder = tmp_path / "impinge_kernels"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(numba.config, name, None)
    monkeypatch.delenv("IMPINGE_SHIPPED_KERNELS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    fitting = {
        "package": shipped.package_digest(),
        "flags": shipped.code_flags(),
        "interpreter": shipped.interpreter_tag(),
        "targets": [target("wide", "levitation"), target("processor")],
        "digests": {},
        "files": {},
    }

    def found(**changes: object) -> shipped.ShippedKernels:
        (folder / "manifest.json").write_text(json.dumps({**fitting, **changes}))
        return shipped.shipped_kernels.__wrapped__()

    return found


def test_package_that_fits(manifest, tmp_path):
    """Use a package built from the same sources for this platform, and the first target that this processor has."""
    found = manifest()

    assert found.folder == tmp_path / "impinge_kernels" / "kernels"
    assert found.target == ("triple", "processor", "")
    assert str(found) == f"shipped for processor ({found.folder})"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"package": "0" * 64}, "built from other sources; install the versions of both that belong together"),
        ({"flags": "numba 0.1"}, r"built for numba 0.1, but this process has BOUNDSCHECK=0, .*numba 0\.\d+"),
        ({"interpreter": "cpython-27 Linux"}, "built for cpython-27 Linux, but this process has cpython-"),
        ({"targets": [target("wide", "levitation")]}, "built for wide, but this processor lacks levitation"),
        ({"digests": None}, "is damaged .*; reinstall impinge-kernels"),
        ({"targets": [{"target": ["triple"], "required": []}]}, "is damaged .*; reinstall impinge-kernels"),
    ],
)
def test_package_that_does_not_fit(manifest, changes, reason):
    """Refuse other sources, versions, interpreters, processors and damaged manifests, each with a reason."""
    found = manifest(**changes)

    assert found.folder is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.refusal)


def test_switches(manifest, monkeypatch):
    """Refuse a package if it is switched off, not there, or if the user chose a processor; take a target by name."""
    monkeypatch.setattr(numba.config, "CPU_NAME", "generic")
    assert manifest().refusal == "NUMBA_CPU_NAME or NUMBA_CPU_FEATURES is set"
    monkeypatch.setattr(numba.config, "CPU_NAME", None)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert manifest().refusal == "NUMBA_DISABLE_JIT is set, kernels run as Python"
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 0)
    both = {"targets": [target("fast"), target("plain")]}
    monkeypatch.setenv("IMPINGE_SHIPPED_KERNELS", "plain")
    assert manifest(**both).target[1] == "plain"
    monkeypatch.setenv("IMPINGE_SHIPPED_KERNELS", "other")
    assert manifest(**both).refusal == "built for fast, plain, but IMPINGE_SHIPPED_KERNELS is 'other'"
    monkeypatch.setenv("IMPINGE_SHIPPED_KERNELS", "0")
    assert manifest().refusal == "switched off by IMPINGE_SHIPPED_KERNELS"
    monkeypatch.delenv("IMPINGE_SHIPPED_KERNELS")
    monkeypatch.setattr(shipped, "PACKAGE_NAME", "impinge_kernels_of_nobody")
    assert "pip install 'impinge[kernels]'" in str(shipped.shipped_kernels.__wrapped__())


def test_features_of_the_targets_are_known_to_llvm():
    """Name the features of the targets as LLVM does: a misspelt one would count as missing everywhere."""
    known = llvmlite.binding.get_host_cpu_features()

    for each in shipped.TARGETS[platform.machine()]:
        assert set(each.required) <= set(known)
