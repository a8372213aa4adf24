"""What ``import impinge`` costs."""

from __future__ import annotations

import subprocess
import sys


def modules_after(code: str) -> set[str]:
    script = f"import sys; {code}; print(' '.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    return set(output.split())


def test_import_loads_nothing_heavy():
    """Load neither NumPy nor Numba nor any optional package with the package itself."""
    heavy = {"numpy", "numba", "scipy", "trimesh", "meshio", "pyvista", "matplotlib", "rich", "typer"}

    assert not heavy & modules_after("import impinge")


def test_bodies_need_no_compiler():
    """Make meshes without loading Numba, which takes half a second by itself."""
    assert "numba" not in modules_after("import impinge; impinge.TriMesh([[0, 0, 0]], [])")
