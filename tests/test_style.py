"""House rules that no linter knows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import impinge

SOURCE = Path(impinge.__file__).parent
TESTS = Path(__file__).parent

STAGES = ["io", "mesh", "deform", "detect", "contact", "respond"]
"""From left to right: a stage imports stages to its left, never to its right."""
FOUNDATION = {"errors", "arrays", "exact", "backend"}
"""Serve all and import none of the stages."""
ABOVE = {
    "soft_body": {"mesh", "deform", "io", "soft_body_file", "soft_body_meshes"},
    "soft_body_meshes": {"mesh"},
    "soft_body_file": {"mesh", "deform", "io", "soft_body"},
    "cloth": {"mesh", "deform", "soft_body", "soft_body_meshes"},
    "published": {"mesh", "deform"},
    "scenes": {"mesh", "deform"},
    "queries": {"io", "mesh", "deform", "detect", "contact", "auto"},
    "auto": {"io", "mesh", "deform", "detect", "contact"},
    "scene_keys": set(),
    "scene_file": {*STAGES, "soft_body", "world", "simulate", "cloth", "scenes", "scene_keys"},
    "simulate": {*STAGES, "queries", "auto", "soft_body", "world", "cloth", "scenes"},
    "world_search": {*STAGES},
    "world": {*STAGES, "queries", "auto", "soft_body", "world_search"},
}
"""What stands on the stages, and what it may use."""
TOP = {"view", "cluster", "bench", "cli", "commands", "simulation_run", "warming", "demo", "__init__", "__main__"}
"""Nothing below imports these."""
DETECTORS = {"brute_force", "box_tree", "breadth_first", "gjk_cut", "spatial_hash", "layered_depth", "sphere_tree"}
"""Detectors never import one another."""


def imports_of(path: Path) -> set[str]:
    """Modules of the package that a file imports at run time, without the package's name; itself is ``__init__``."""
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    ours = {name for name in names if name.split(".")[0] == "impinge"}
    return {name.removeprefix("impinge.") if "." in name else "__init__" for name in ours}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def allowed_for(part: str) -> set[str]:
    if part in ("errors",):
        return set()
    if part in FOUNDATION:
        return FOUNDATION
    if part in STAGES:
        return FOUNDATION | set(STAGES[: STAGES.index(part) + 1])
    if part in ABOVE:
        return FOUNDATION | ABOVE[part] | {part}
    return FOUNDATION | set(STAGES) | set(ABOVE) | TOP


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_to_the_left(path: Path):
    """Let each part import only what stands to its left or below it."""
    part = part_of(path)
    used = {name.split(".")[0] for name in imports_of(path)}

    assert part in FOUNDATION | set(STAGES) | set(ABOVE) | TOP, f"say in this test where {part} stands"
    assert used <= allowed_for(part)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import impinge", "__init__"),
        ("import impinge as im", "__init__"),
        ("import impinge.mesh.shapes", "mesh.shapes"),
        ("from impinge import TriMesh", "TriMesh"),
        ("from impinge.mesh import shapes", "mesh.shapes"),
    ],
)
def test_no_way_to_import_is_missed(tmp_path, line, found):
    """See every way to import the package, the package as a whole too, which only the top may do."""
    (tmp_path / "module.py").write_text(f"import impinger\ndef later():\n    {line}\n")

    assert imports_of(tmp_path / "module.py") == {found}
    assert not {"__init__", "TriMesh"} & allowed_for("detect")


def test_detectors_do_not_import_one_another():
    """Keep detectors apart: what two of them need has a module of its own."""
    for path in (SOURCE / "detect").glob("*.py"):
        owner = next((name for name in DETECTORS if path.stem.startswith(name)), None)
        others = {name.split(".")[1] for name in imports_of(path) if name.startswith("detect.")}
        strangers = {name for name in others if any(name.startswith(d) for d in DETECTORS if d != owner)}
        if owner is not None:
            assert not strangers, path.name


def test_kernels_import_no_class_of_ours():
    """Let modules of compiled code import compiled code and constants only."""
    for path in SOURCE.rglob("*_kernels.py"):
        for name in imports_of(path):
            assert name.startswith(("exact.", "backend.")) or "_kernels" in name, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is(path: Path):
    """Open every module with a docstring."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_every_test_says_what_it_demands():
    """Give every test a docstring."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path.name}::{node.name}"


def test_public_names_are_listed_once():
    """Keep the list of public names, the lazy look-up and the modules in step."""
    lazy = set(impinge._MODULE_OF) | set(impinge._MODULE_OF_MODULE)

    assert set(impinge.__all__) == lazy
    assert len(impinge.__all__) == len(lazy)
    for name in impinge.__all__:
        assert getattr(impinge, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        impinge.nonsense  # noqa: B018 - the look-up is the test
