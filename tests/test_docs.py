"""The pages are whole: all are listed, methods are told alike, and every public name is on the API page."""

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
"""Of a method's page, after its picture."""
THEIRS = [
    "fcl.BVHModel", "fcl.CollisionObject", "fcl.Transform", "fcl.collide", "fcl.CollisionRequest", "fcl.distance",
    "fcl.DynamicAABBTreeCollisionManager", "trimesh.load", "trimesh.collision.CollisionManager",
    "trimesh.proximity.closest_point", "trimesh.proximity.signed_distance", "trimesh.boolean.intersection",
    "ipctk.CollisionMesh", "ipctk.has_intersections", "ipctk.Candidates", "ipctk.NormalCollisions",
    "igl.copyleft.cgal.intersect_other", "igl.copyleft.cgal.remesh_self_intersections", "igl.fast_winding_number",
    "igl.point_mesh_squared_distance", "igl.in_element",
]  # fmt: skip
"""What the page for those who come from elsewhere names."""
LARGEST_PICTURE = 1_000_000
"""Bytes."""


def read(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_the_site_builds_without_a_warning(tmp_path):
    """Build from nothing, as ``make docs`` does: pages, docstrings and links of the whole site."""
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", DOCS, tmp_path / "site"]
    environment = {**os.environ, "PYTHONPATH": str(Path(impinge.__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").exists()


def test_every_page_is_listed():
    """Reach all pages from the index, each once."""
    listed = [
        name for block in re.findall(r"```{toctree}\n(.*?)```", read("index"), re.DOTALL)
        for name in re.findall(r"^[\w/]+$", block, re.MULTILINE)
    ]  # fmt: skip

    assert sorted(listed) == sorted({*(path.stem for path in DOCS.glob("*.md")), "results/README"} - {"index"})


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_told_under_the_same_headings(name):
    """Begin with a picture, then show code, then tell the same six things in the same order."""
    page = read(name)
    headings = [found for found in re.findall(r"^## (.+)$", page, re.MULTILINE) if found in HEADINGS]

    assert headings == HEADINGS
    assert 0 < page.index("](images/") < page.index("```python") < page.index("## Method")


def test_every_method_has_a_page():
    """Name on the page of choice every detector and its page; ``BruteForce`` is the judge and has none."""
    choice = read("which_method")

    for name in METHODS:
        assert f"]({name}.md)" in choice


def test_every_public_name_is_on_the_api_page():
    """Document what can be imported, each name once, and nothing else."""
    documented = re.findall(r"^\.\. auto(?:class|function|exception):: impinge\.(\w+)$", read("api"), re.MULTILINE)
    modules = {name for name in impinge.__all__ if inspect.ismodule(getattr(impinge, name))}

    assert sorted(documented) == sorted(set(impinge.__all__) - modules)
    for name in modules:
        assert f".. automodule:: {getattr(impinge, name).__name__}\n" in read("api")


def test_what_the_api_page_shows_is_explained():
    """Give every public name a docstring of its own."""
    for name in impinge.__all__:
        assert (getattr(impinge, name).__doc__ or "").strip(), name


@pytest.mark.parametrize("name", THEIRS)
def test_calls_of_other_libraries_exist(name):
    """Name only what these libraries have."""
    module, _, call = name.rpartition(".")

    assert callable(getattr(importlib.import_module(module), call))
    assert call in read("coming_from")


def test_pictures_are_small_and_used():
    """Keep no picture that no page shows, and none that is slow to load."""
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    shown = {name for page in pages for name in re.findall(r"images/([\w.]+)\)", page.read_text(encoding="utf-8"))}
    pictures = list((DOCS / "images").iterdir())

    assert {path.name for path in pictures} == shown
    for path in pictures:
        assert path.stat().st_size < LARGEST_PICTURE, path.name
