"""Deformable model of two meshes: section 3.

1. Coarse   The dense surface is simplified under quadric error metrics and filled with tets (section 5:
            [Garland1997], NetGen). ``impinge.mesh.prepare`` does both.
2. Links    Each dense vertex hangs on its three closest coarse surface vertices by a rigid link (section 3.1, equations
            1 to 8). ``impinge.deform.RigidLinks`` names the corrections of equations 3 and 8.
3. Model    Explicit finite elements with Green strain ([OBrienHodgins1999]), 4th order Runge-Kutta.
4. Spheres  Wrapped sphere tree of the dense surface at rest (section 4.1), and the closest coarse vertices of each
            sphere (sections 4.3 and 4.4).

Departures  Where NetGen fails, cubes enclose the surface (``method="auto"``). Sub-steps of Runge-Kutta are as long as
            the model is stable; the paper gives no step. ``barrier`` adds resistance against inversion of tets; 0
            is the published model.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from impinge.checks import Floats, Ints, as_positions, shown
from impinge.deform.fem import GreenStrain
from impinge.deform.integrate import Integrator, StepReport
from impinge.deform.materials import Material
from impinge.deform.rigid_links import RigidLinks
from impinge.errors import OptionError
from impinge.mesh.prepare import coarse_tets
from impinge.mesh.tet_mesh import TetMesh
from impinge.mesh.tri_mesh import TriMesh
from impinge.published.interruptible.search import Spheres
from impinge.published.interruptible.sphere_tree import SphereTree, build_sphere_tree
from impinge.published.interruptible.update import closest_vertices, update_spheres


class DeformableBody:
    """One object: dense surface, coarse finite elements, rigid links, sphere tree.

    Parameters
    ----------
    dense : TriMesh
        Surface at rest; copied.
    coarse : TetMesh
        Coarse mesh at rest.
    tree : SphereTree
        Sphere tree of ``dense``.
    material : Material or str
        Of the finite elements.
    vertices_per_sphere : int
        Size of the sets V_i.
    barrier : float
        Resistance against inversion, relative to the stiffness; 0 as published.
    fixed : array of int, optional
        Coarse vertices that do not move.
    """

    def __init__(
        self,
        dense: TriMesh,
        coarse: TetMesh,
        tree: SphereTree,
        *,
        material: Material | str = "liver",
        vertices_per_sphere: int = 8,
        barrier: float = 0.0,
        fixed: Any = None,
    ) -> None:
        if isinstance(vertices_per_sphere, bool) or not isinstance(vertices_per_sphere, int) or vertices_per_sphere < 1:
            raise OptionError(f"vertices_per_sphere is {shown(vertices_per_sphere)}, expected a whole number from 1")
        snapshot = dense.snapshot()
        self.dense = TriMesh(snapshot.vertices, snapshot.elements[snapshot.live])
        self.coarse = coarse
        self.tree = tree
        self.model = GreenStrain(coarse.vertices, coarse.tets, material, barrier=barrier)
        self.fixed = fixed
        self.x: Floats = self.model.rest.copy()
        """P of the reduced model: coarse positions, shape (m, 3)."""
        self.v: Floats = np.zeros_like(self.x)
        self.closest: Ints = closest_vertices(tree.centre, self.model.rest, vertices_per_sphere)
        """V_i of each sphere, closest first, shape (n, k)."""
        self.spheres: Spheres = tree.spheres
        """The sphere tree when last updated."""
        self._links = RigidLinks(self.model.rest, np.unique(coarse.surface.faces), snapshot.vertices)
        self._integrator = Integrator(self.model)
        self._made_with = {
            "material": self.model.material, "vertices_per_sphere": vertices_per_sphere, "barrier": barrier,
            "fixed": fixed,
        }  # fmt: skip

    def posed(self, translation: Any, rotation: Any = None) -> DeformableBody:
        """Return a body at rest in another place with the same meshes and the same sphere tree.

        Parameters
        ----------
        translation : (3,) array
            Added after the rotation.
        rotation : (3, 3) array, optional
            Orthogonal matrix that multiplies positions from the left.
        """
        shift = as_positions(np.atleast_2d(translation), name="translation", count=1)[0]
        turn = np.eye(3) if rotation is None else as_positions(rotation, name="rotation", count=3)

        def move(x: Floats) -> Floats:
            return np.asarray(x @ turn.T + shift)

        tree = SphereTree(
            move(self.tree.centre), self.tree.radius, self.tree.first_child, self.tree.child_count, self.tree.level,
            move(self.tree.piece), self.tree.piece_triangle, self.tree.piece_leaf,
        )  # fmt: skip
        dense = TriMesh(move(self._links.steer(self.model.rest)), self.dense.faces)
        return DeformableBody(dense, TetMesh(move(self.model.rest), self.model.tets), tree, **self._made_with)

    def update(self) -> None:
        """Update the spheres from the coarse positions (section 4.4)."""
        tree = self.tree
        centre, radius = update_spheres(tree.centre, tree.radius, self.closest, self.model.rest, self.x)
        self.spheres = tree.spheres._replace(centre=centre, radius=radius)

    def advance(self, dt: float, force: Floats, gravity: Any) -> StepReport:
        """Integrate the coarse mesh over ``dt`` with constant contact forces; Runge-Kutta of 4th order."""
        return self._integrator.advance(self.x, self.v, dt, external=force, gravity=gravity, fixed=self.fixed)

    def steer(self) -> None:
        """Move the dense mesh by the rigid links (section 3.2, equations 9 and 10)."""
        self.dense.update(self._links.steer(self.x))

    @property
    def mean_edge(self) -> float:
        """Mean edge length of the coarse mesh at rest [m]."""
        corner = self.model.rest[self.model.tets]
        edge = [corner[:, i] - corner[:, j] for i in range(4) for j in range(i)]
        return float(np.linalg.norm(np.concatenate(edge), axis=1).mean())

    @property
    def centroid(self) -> Floats:
        """Centre of mass of the coarse mesh, shape (3,)."""
        return np.asarray(np.average(self.x, axis=0, weights=self.model.masses))


def make_body(
    surface: TriMesh,
    *,
    coarse_faces: int = 200,
    method: Literal["auto", "netgen", "cubes"] = "auto",
    cells: int | None = None,
    material: Material | str = "liver",
    vertices_per_sphere: int = 8,
    barrier: float = 0.0,
    fixed: Any = None,
    branching: int = 8,
    levels: int = 3,
    samples: int = 10_000,
    min_spheres: int = 100,
    seed: int = 0,
) -> DeformableBody:
    """Prepare a deformable body from a dense closed surface: off-line stage of sections 3.1 and 4.1.

    Parameters
    ----------
    surface : TriMesh
        Dense surface at rest, closed.
    coarse_faces, method, cells
        Coarse mesh: see ``impinge.mesh.prepare.coarse_tets``.
    material, vertices_per_sphere, barrier, fixed
        See ``DeformableBody``.
    branching, levels, samples, min_spheres, seed
        Sphere tree: see ``build_sphere_tree``.

    Returns
    -------
    DeformableBody

    Raises
    ------
    MeshError
        If the surface is not closed, or cannot be filled with tets.
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> from impinge.mesh import shapes
    >>> body = make_body(shapes.icosphere(2), method="cubes", cells=2, levels=1, samples=200, min_spheres=20)
    >>> int(body.tree.level.max()), body.model.tets.shape
    (1, (40, 4))
    """
    coarse = coarse_tets(surface, coarse_faces=coarse_faces, method=method, cells=cells)
    tree = build_sphere_tree(
        surface, branching=branching, levels=levels, samples=samples, min_spheres=min_spheres, seed=seed
    )
    return DeformableBody(
        surface, coarse.mesh, tree,
        material=material, vertices_per_sphere=vertices_per_sphere, barrier=barrier, fixed=fixed,
    )  # fmt: skip
