"""What users install is what is tested: a wheel, with all that it needs and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    """Pack every module and data file, no tests, no caches."""
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src"
    endings = {".py", ".pyi", ".json", ".typed", ".html"}
    wanted = {str(path.relative_to(package)) for path in package.rglob("*") if path.suffix in endings}

    assert wanted <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"impinge"}
    assert not [name for name in names if "__pycache__" in name or Path(name).name.startswith("test_")]


def test_the_wheel_is_imported_as_a_zip(wheel):
    """List public names from inside of an archive."""
    code = "import impinge; print(len(impinge.__all__))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(wheel)}, capture_output=True, text=True
    )

    assert int(done.stdout) > 80, done.stderr


def test_the_wheel_has_no_benchmark_code(wheel):
    """Leave benchmarks, peers and results to the repository: no module of the wheel imports or holds them."""
    archive = zipfile.ZipFile(wheel)
    modules = [name for name in archive.namelist() if name.endswith(".py")]
    imports = re.compile(r"^\s*(from|import) benchmarks\b", re.MULTILINE)

    assert len(modules) > 100
    assert not [name for name in archive.namelist() if "bench" in name]
    assert not [name for name in modules if imports.search(archive.read(name).decode())]


def test_the_command_has_no_benchmarks():
    """Reject ``impinge bench``; ``python -m benchmarks`` replaced it."""
    command = [sys.executable, "-m", "impinge"]

    usage = subprocess.run([*command, "--help"], capture_output=True, text=True)
    done = subprocess.run([*command, "bench"], capture_output=True, text=True)

    assert usage.returncode == 0
    assert "info" in usage.stdout
    assert not re.search(r"\bbench\b", usage.stdout)
    assert done.returncode == 2
    assert "bench" in done.stderr


def test_the_metadata_tells_what_is_needed(wheel):
    """Declare Python, licence, the command, and extras whose packages are optional."""
    archive = zipfile.ZipFile(wheel)
    (meta,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    (points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    metadata = Parser().parsestr(archive.read(meta).decode())
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]

    assert metadata["Requires-Python"] == ">=3.10"
    assert "MIT" in (metadata["License-Expression"] or metadata["License"])
    assert {re.match(r"[\w-]+", line)[0].lower() for line in needed} <= {
        "numpy", "numba", "scipy", "tbb", "typer", "rich", "tomli",
    }  # fmt: skip
    assert {"soft", "view", "picture", "cuda", "cluster", "bench", "all"} <= set(metadata.get_all("Provides-Extra"))
    assert "impinge = impinge.__main__:main" in archive.read(points).decode()


NO_EXTRAS = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {'trimesh', 'meshio', 'pyvista', 'matplotlib', 'viser', 'netgen', 'dask',
                                  'distributed', 'pyarrow', 'fast_simplification', 'igl', 'fcl'}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import impinge
assert '.whl' in impinge.__file__ or 'installed' in impinge.__file__, impinge.__file__
found = impinge.triangle_pairs(impinge.shapes.box(1.0), impinge.shapes.box(1.0, center=(0.5, 0.5, 0.5)))
print(len(found), found.complete)
try:
    impinge.load('missing.obj')
except impinge.ImpingeError as error:
    print(error)
"""


def test_the_wheel_works_without_extras_and_without_the_sources(wheel, tmp_path):
    """Unpack it elsewhere, hide what is optional, and ask for triangle pairs."""
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    done = subprocess.run(
        [sys.executable, "-c", NO_EXTRAS], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    count, complete = done.stdout.split()[:2]
    assert int(count) > 0
    assert complete == "True"
