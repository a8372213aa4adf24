"""What ``import impinge`` costs."""

from __future__ import annotations

import subprocess
import sys

import pytest


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


METHODS = {"box_tree", "breadth_first", "gjk_cut", "spatial_hash", "layered_depth", "sphere_tree"}
SPHERES = "import impinge; a, b = impinge.shapes.icosphere(1), impinge.shapes.icosphere(1, center=(1.0, 0.0, 0.0))"


def methods_in(modules: set[str]) -> set[str]:
    return {name for name in METHODS if any(module.startswith(f"impinge.detect.{name}.") for module in modules)}


@pytest.mark.parametrize(
    ("query", "methods"),
    [
        ("impinge.triangle_pairs(a, b, method='box_tree')", {"box_tree"}),
        ("impinge.triangle_pairs(a, b, method='gjk_cut')", {"gjk_cut"}),
        ("impinge.self_pairs(a, method='breadth_first')", {"breadth_first"}),
        ("impinge.overlap_volume(a, b)", {"layered_depth"}),
        ("impinge.SphereTree(a, b).query(max_tests=10)", {"sphere_tree"}),
        ("impinge.closest_points(a, b.vertices)", set()),
    ],
)
def test_query_loads_the_method_that_answers(query, methods):
    """Import the kernels of one method alone."""
    assert methods_in(modules_after(f"{SPHERES}; {query}")) == methods


@pytest.mark.parametrize("query", ["triangle_pairs(a, b)", "self_pairs(a)", "overlap_volume(a, b)", "collides(a, b)"])
def test_query_loads_scipy_only_where_it_is_used(query):
    """Import no part of SciPy but its linear algebra, which Numba loads."""
    parts = {"scipy.spatial", "scipy.sparse", "scipy.ndimage", "scipy.optimize"}

    assert not parts & modules_after(f"{SPHERES}; impinge.{query}")
