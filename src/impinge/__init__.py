"""Collision detection between deformable bodies: exact, update-first, on NumPy arrays.

    import impinge

    a = impinge.load("bunny.ply")
    b = impinge.TriMesh(vertices, faces)
    result = impinge.triangle_pairs(a, b)     # every pair of triangles that meet
    b.update(new_vertices)                    # next frame

``__init__.pyi`` lists the public names, once, for editors and type checkers and for the loader below: a name is
imported at its first use, and ``import impinge`` costs a few milliseconds.
"""

import re
from importlib import import_module

__version__ = "0.1.0"

_MODULE_OF = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+) as \w+$", __spec__.loader.get_data(f"{__file__[:-3]}.pyi").decode(), re.MULTILINE
    )
}
"""The module that defines each public name."""

__all__ = list(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'impinge' has no attribute {name!r}")
    value = import_module(f"{module}.{name}") if module in _PACKAGES else getattr(import_module(module), name)
    globals()[name] = value
    return value


_PACKAGES = ("impinge", "impinge.mesh")
"""Packages whose public names are modules."""


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
