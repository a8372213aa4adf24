"""Both wheels in an empty environment: every query is answered, and nothing is compiled or written.

``make test-wheels`` builds the wheels and installs them into ``dist/empty``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features

from impinge.backend.shipped import TARGETS
from warmup_cases import CASES, compiled_by

pytestmark = pytest.mark.wheels

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "dist" / "empty" / "bin" / "python"
WHEEL_MB = 15.0
HERE = [
    target.processor
    for target in TARGETS.get(platform.machine(), ())
    if all(get_host_cpu_features().get(name) for name in target.required)
]
"""Targets that this processor can run."""
ANSWERS = """
import hashlib, json
import numpy as np
import impinge

a, b = (impinge.shapes.bumpy_sphere(4, center=(x, 0.1, 0.2)) for x in (0.0, 1.1))
world = impinge.World()
for height in (0.5, 1.6):
    ball = impinge.shapes.icosphere(3, radius=0.5, center=(0.1 * height, 0.0, height))
    world.add(impinge.SoftBody.from_surface(ball, method="cubes", cells=4, material="jelly"))
simulation = impinge.Simulation(world, ground=0.02)
for _ in range(20):
    simulation.step(1 / 60)
arrays = {
    "pairs": impinge.triangle_pairs(a, b).pairs,
    "spheres": impinge.sphere_contacts(a, b, max_tests=20_000).certain,
    "volume": np.array([impinge.overlap_volume(a, b).volume]),
    "depth": impinge.penetrating_vertices([a, b], depth=True).depth,
    "closest": impinge.closest_points(a, b.vertices).distance,
    "simulation": np.concatenate([world.surface(name).vertices for name in world]),
}
from impinge.backend import jit, shipped
print(json.dumps([
    {name: hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest() for name, each in arrays.items()},
    len(jit.compilations), str(shipped.shipped_kernels()),
]))
"""


def environment(cache: Path, **more: str) -> dict[str, str]:
    """That of a user with an empty cache."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "IMPINGE_", "PYTHON"))}
    return {**plain, "IMPINGE_CACHE_DIR": str(cache), **more}


@pytest.fixture(scope="module")
def packages() -> Iterator[Path]:
    """The folder of both installed packages, read-only while the tests run."""
    assert PYTHON.is_file(), "run `make test-wheels`, which installs the wheels into dist/empty"
    (folder,) = (PYTHON.parents[1] / "lib").glob("python*/site-packages")
    paths = [path for name in ("impinge", "impinge_kernels") for path in (folder / name, *(folder / name).rglob("*"))]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    yield folder
    for path in paths:
        path.chmod(path.stat().st_mode | 0o200)


def content(packages: Path) -> dict[str, str]:
    """Digests of all files of both packages."""
    files = [file for name in ("impinge", "impinge_kernels") for file in (packages / name).rglob("*") if file.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.suffix != ".pyc"}


@pytest.fixture(scope="module", params=HERE)
def compiled(packages, tmp_path_factory, request) -> dict[str, list[str]]:
    """Functions compiled by each query, with an empty cache and the kernels of one target."""
    cache = tmp_path_factory.mktemp("user") / "cache"
    before = content(packages)
    found = compiled_by([str(PYTHON)], environment(cache, IMPINGE_SHIPPED_KERNELS=request.param))

    assert not cache.exists()
    assert content(packages) == before
    return found


@pytest.mark.parametrize("question", CASES)
def test_queries_compile_nothing(compiled, question):
    """Answer every query of the warm-up test from shipped kernels alone."""
    assert compiled[question] == []


def test_jobs_of_the_warm_up_compile_nothing(packages, tmp_path):
    """Run every job of the warm-up, serial and threaded, without compiling or caching anything."""
    code = "import impinge; from impinge.backend import jit; impinge.warmup(threads=True); print(jit.compilations)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, env=environment(tmp_path / "cache"))

    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    assert not (tmp_path / "cache").exists()


def test_demo_compiles_nothing(packages, tmp_path):
    """Run the demo without a preparing process and without compiling anything."""
    command = [PYTHON.with_name("impinge"), "demo", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path / "cache"))

    assert done.returncode == 0, done.stderr
    assert "compiling" not in done.stdout
    assert "NO:" not in done.stdout
    assert (tmp_path / "out" / "first.png").is_file()
    assert not list(tmp_path.glob("cache/kernels/*"))


def test_shipped_kernels_give_the_bits_of_compiled_ones(packages, tmp_path):
    """Give the same bits as kernels compiled for this processor, simulations with fused multiply-add included."""
    found = {}
    for switch in ("0", *HERE):
        own = environment(tmp_path / "cache", IMPINGE_SHIPPED_KERNELS=switch)
        found[switch] = json.loads(subprocess.check_output([PYTHON, "-c", ANSWERS], env=own))
    expected, count, _ = found.pop("0")

    assert count > 50
    for target, (answers, compiled_count, place) in found.items():
        assert place.startswith(f"shipped for {target} ")
        assert compiled_count == 0
        assert answers == expected


def test_size_and_pins():
    """Keep the wheel small, and pin it to the exact versions of impinge and Numba."""
    (wheel,) = (ROOT / "dist" / "wheels").glob("impinge_kernels-*.whl")
    listing = [PYTHON, "-m", "pip", "show", "impinge-kernels"]
    shown = subprocess.check_output(listing, text=True, stderr=subprocess.DEVNULL)
    code = "from importlib.metadata import requires; print(requires('impinge-kernels'))"

    assert wheel.stat().st_size < WHEEL_MB * 1e6
    assert "Name: impinge-kernels" in shown
    assert subprocess.check_output([PYTHON, "-c", code], text=True).count("==") == 2
