"""The site builds, lists all pages and public names, and uses one structure for all methods."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import impinge

DOCS = Path(__file__).parents[1] / "docs"
METHODS = ["box_tree", "breadth_first", "gjk_cut", "spatial_hash", "layered_depth", "sphere_tree", "proximity"]
HEADINGS = ["Method", "When to choose it", "Cost", "Guarantee", "Settings", "References"]
"""Headings of a method's page, after its picture."""
THEIRS = [
    "fcl.BVHModel", "fcl.CollisionObject", "fcl.Transform", "fcl.collide", "fcl.CollisionRequest", "fcl.distance",
    "fcl.DynamicAABBTreeCollisionManager", "trimesh.load", "trimesh.collision.CollisionManager",
    "trimesh.proximity.closest_point", "trimesh.proximity.signed_distance", "trimesh.boolean.intersection",
    "ipctk.CollisionMesh", "ipctk.has_intersections", "ipctk.Candidates", "ipctk.NormalCollisions",
    "igl.copyleft.cgal.intersect_other", "igl.copyleft.cgal.remesh_self_intersections", "igl.fast_winding_number",
    "igl.point_mesh_squared_distance", "igl.in_element",
]  # fmt: skip
"""Calls of other libraries on the page coming_from."""
LARGEST_PICTURE = 1_000_000
"""Bytes."""


def read(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_the_site_builds_without_a_warning(tmp_path):
    """Build the site from scratch, as ``make docs`` does, including docstrings and links."""
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", DOCS, tmp_path / "site"]
    environment = {**os.environ, "PYTHONPATH": str(Path(impinge.__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").exists()


def test_every_page_is_listed():
    """List every page once in the index."""
    listed = [
        name for block in re.findall(r"```{toctree}\n(.*?)```", read("index"), re.DOTALL)
        for name in re.findall(r"^[\w/]+$", block, re.MULTILINE)
    ]  # fmt: skip

    assert sorted(listed) == sorted({*(path.stem for path in DOCS.glob("*.md")), "results/README"} - {"index"})


@pytest.mark.parametrize("name", METHODS)
def test_pages_of_methods_have_the_same_headings(name):
    """Start with a picture and code, then use the same six headings in the same order."""
    page = read(name)
    headings = [found for found in re.findall(r"^## (.+)$", page, re.MULTILINE) if found in HEADINGS]

    assert headings == HEADINGS
    assert 0 < page.index("](images/") < page.index("```python") < page.index("## Method")


def test_every_method_has_a_page():
    """Link every detector on the page of choice; ``BruteForce`` is the reference and has no page."""
    choice = read("which_method")

    for name in METHODS:
        assert f"]({name}.md)" in choice


def test_every_public_name_is_on_the_api_page():
    """Document every public name once, and no other."""
    documented = re.findall(r"^\.\. auto(?:class|function|exception):: impinge\.(\w+)$", read("api"), re.MULTILINE)
    modules = {name for name in impinge.__all__ if inspect.ismodule(getattr(impinge, name))}

    assert sorted(documented) == sorted(set(impinge.__all__) - modules)
    for name in modules:
        assert f".. automodule:: {getattr(impinge, name).__name__}\n" in read("api")


def test_public_names_have_docstrings():
    """Give every public name a docstring of its own."""
    for name in impinge.__all__:
        assert (getattr(impinge, name).__doc__ or "").strip(), name


@pytest.mark.parametrize("name", THEIRS)
def test_calls_of_other_libraries_exist(name):
    """Name only existing calls of other libraries."""
    module, _, call = name.rpartition(".")

    assert callable(getattr(importlib.import_module(module), call))
    assert call in read("coming_from")


def test_pictures_are_small_and_used():
    """Keep only pictures that a page shows, below the size limit."""
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    shown = {name for page in pages for name in re.findall(r"images/([\w.]+)\)", page.read_text(encoding="utf-8"))}
    pictures = list((DOCS / "images").iterdir())

    assert {path.name for path in pictures} == shown
    for path in pictures:
        assert path.stat().st_size < LARGEST_PICTURE, path.name
