"""An Interruptible Algorithm for Collision Detection between Deformable Objects (Mendoza and O'Sullivan 2005).

The whole system of the paper, as written: [MendozaOSullivan2005].

Section 3    ``body``         coarse and dense mesh, rigid links (equations 1 to 10), explicit finite elements, RK4
Section 4.1  ``sphere_tree``  wrapped sphere tree by adaptive medial-axis approximation
Section 4.2  ``search``       interruptible traversal with PAIRLIST and COLLISIONLIST (Figs 4 and 7)
Section 4.3  ``response``     penalty forces on the closest coarse vertices, averaged (equation 11)
Section 4.4  ``update``       spheres follow the coarse mesh
             ``system``       one simulation cycle

Each module names the errors of the paper that it corrects and its other departures.

Examples
--------
>>> from impinge.mesh import shapes
>>> from impinge.published.interruptible import System, make_body
>>> surface = shapes.icosphere(2, radius=0.05)
>>> ball = make_body(surface, method="cubes", cells=3, levels=2, samples=500, min_spheres=20)
>>> other = ball.posed((0.1, 0.0, 0.0))
>>> ball.v[:, 0], other.v[:, 0] = 0.2, -0.2
>>> system = System([ball, other])
>>> cycles = [system.step(0.002, max_tests=120) for _ in range(50)]
>>> any(cycle.interrupted for cycle in cycles), all(cycle.tests <= 120 for cycle in cycles)
(True, True)
>>> bool(ball.v[:, 0].mean() < 0.0 < other.v[:, 0].mean())
True
"""

from impinge.published.interruptible.body import DeformableBody, make_body
from impinge.published.interruptible.response import Contacts, contacts_of, vertex_forces
from impinge.published.interruptible.search import Lists, Spheres, traverse
from impinge.published.interruptible.sphere_tree import SphereTree, build_sphere_tree
from impinge.published.interruptible.system import Cycle, System
from impinge.published.interruptible.update import closest_vertices, update_spheres

__all__ = [
    "Contacts", "Cycle", "DeformableBody", "Lists", "SphereTree", "Spheres", "System", "build_sphere_tree",
    "closest_vertices", "contacts_of", "make_body", "traverse", "update_spheres", "vertex_forces",
]  # fmt: skip
