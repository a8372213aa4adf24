"""Compile everything up front, so that no later query waits for the compiler.

Each job runs a query on a few triangles, once serial and once on threads: what runs is what is compiled, so the
list below is complete if it asks every question once. A test counts what is still compiled afterwards: nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import numpy as np

from impinge import queries, scenes
from impinge.backend import jit
from impinge.backend.sort import sort_keys
from impinge.bodies.cloth import Cloth
from impinge.bodies.soft_body import SoftBody
from impinge.contact.volume_gradient import VolumeGradients, volume_gradient
from impinge.deform.barycentric import Barycentric
from impinge.deform.fem import GreenStrain
from impinge.deform.integrate import Integrator
from impinge.deform.rigid_links import RigidLinks
from impinge.detect.gjk_cut.detector import cut_along_direction
from impinge.detect.gjk_cut.hull_distance import hull_distance
from impinge.detect.layered_depth.detector import LayeredDepth
from impinge.detect.sphere_tree.build.build import build_spheres
from impinge.errors import ImpingeError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh
from impinge.simulate.simulation import Simulation
from impinge.world.world import World

METHODS = ("box_tree", "brute_force")
"""The default and its judge; ``BreadthFirst`` compiles when it is first asked for, to keep this below a minute."""


@dataclass(frozen=True)
class Warmed:
    """One job done."""

    name: str
    seconds: float


def _pairs() -> None:
    for method in METHODS:
        # This scene has many pairs (a single one is not sorted), and pairs that only the exact test can decide.
        queries.triangle_pairs(*scenes.get("boxes_overlapping_by_half").bodies, method=method)


def _pairs_of_large_bodies() -> None:
    """Box trees search small bodies in one call and others in launches, and sort many keys by counting."""
    a, b = scenes.get("bumpy_spheres_20k").surfaces
    a.update(a.vertices)
    queries.triangle_pairs(a, b, method="box_tree")
    sort_keys(np.arange(2, dtype=np.uint64))


def _pairs_of_moved_bodies() -> None:
    for name in ("boxes_overlapping_by_half", "bumpy_spheres_20k"):
        a, b = scenes.get(name).surfaces
        queries.triangle_pairs(a, b, method="box_tree", transform_a=np.eye(4))


def _pairs_without_structure() -> None:
    """A body against another and alone; many triangles are searched in slabs."""
    for name in ("boxes_overlapping_by_half", "bumpy_spheres_20k"):
        a, b = scenes.get(name).surfaces
        queries.triangle_pairs(a, b, method="gjk_cut")
    queries.self_pairs(scenes.get("boxes_overlapping_by_half").surfaces[0], method="gjk_cut")
    cut_along_direction(a, b, (1.0, 0.0, 0.0))
    hull_distance(a, b)


def _self_pairs() -> None:
    for method in METHODS:
        queries.self_pairs(scenes.get("boxes_overlapping_by_half").bodies[0], method=method)
    queries.self_pairs(scenes.get("bumpy_spheres_20k").surfaces[0], method="box_tree")


def _containment() -> None:
    queries.check(*scenes.get("nested_spheres").bodies)


def _curves_and_margins() -> None:
    a, b = scenes.get("boxes_overlapping_by_half").bodies
    queries.intersection_curves(a, b)
    queries.edge_crossings(a, b)
    queries.proximity(a, b, margin=0.1, ignore=[[0, 0]])
    queries.proximity(a, margin=0.1)


def _nearest() -> None:
    """Spheres inside one another: points inside and outside, and distances that keep threads busy."""
    inner, outer = shapes.icosphere(3), shapes.icosphere(3, radius=1.1)
    queries.closest_points(outer, np.concatenate([inner.vertices, 2.0 * inner.vertices]))
    queries.distance(inner, outer)
    queries.distance(outer, outer)


def _vertices_in_tets() -> None:
    """Boxes of tets that share a face's plane, so that doubles cannot tell, and closed surfaces."""
    tets = shapes.tet_box(2, 1, 1), shapes.tet_box(2, 2, 1, center=(0.0, 0.0, 0.5))
    nested = shapes.tet_box(1, 1, 1), shapes.tet_box(1, 1, 1, size=0.2)
    for bodies in (tets, nested, [tet.surface for tet in tets]):
        queries.penetrating_vertices(bodies, depth=True, edges=True)
    queries.penetrating_vertices(tets, depth="local")


def _overlaps() -> None:
    """Volumes along all axes, a body that overlaps itself, and points up to a pixel."""
    a, b = scenes.get("boxes_overlapping_by_half").surfaces
    queries.overlap_volume(a, b, axes=3)
    LayeredDepth(TriMesh(np.concatenate([a.vertices, b.vertices]), np.concatenate([a.faces, b.faces + 8]))).query()
    queries.points_inside(a, b.vertices, resolution=16)
    volume_gradient(a, b)
    VolumeGradients(a, b).cells(1.0)


def _spheres() -> None:
    """The quick builder; the other one compiles when it is first asked for, like all that is done off-line."""
    build_spheres(shapes.box(), builder="octree", kind="layered", levels=2)
    a, b = scenes.get("boxes_overlapping_by_half").surfaces
    queries.sphere_contacts(a, b, budget_ms=None, exact=True)
    queries.sphere_contacts(a, b, tracking="affine", budget_ms=None)
    layered = build_spheres(a, builder="octree", kind="layered", levels=2)
    queries.sphere_contacts(a, b, tree_a=layered, order="priority", transform_a=np.eye(4), budget_ms=None)
    bumpy_a, bumpy_b = scenes.get("bumpy_spheres_1k").surfaces
    queries.sphere_contacts(bumpy_a, bumpy_b, queue_limit=1, budget_ms=None)
    queries.sphere_contacts(bumpy_a, bumpy_b, max_tests=50)
    queries.sphere_contacts(bumpy_a, level=1, budget_ms=None).to_dict()
    ball, same = shapes.icosphere(3), shapes.icosphere(3)  # meet everywhere, in pairs: more than the first queue holds
    pairs = build_spheres(ball, builder="octree", branching=2, levels=10)
    queries.sphere_contacts(ball, same, tree_a=pairs, tree_b=pairs, budget_ms=None)


def _soft_bodies() -> None:
    """Models and embeddings by themselves, and as parts of bodies, whose positions are read-only arrays."""
    mesh, dense = shapes.tet_box(2, 2, 2), shapes.box(1.0)
    model = GreenStrain(mesh.vertices, mesh.tets, "jelly")
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    Integrator(model).advance(x, v, 1e-3, gravity=(0.0, 0.0, -9.81))
    links = RigidLinks(model.rest, np.unique(mesh.surface.faces), dense.vertices)
    links.steer(x)
    links.handles(model.rest)
    Barycentric(model.rest, model.tets, dense.vertices).steer(x)
    surface = shapes.icosphere(4)  # enough vertices for the kernel that copies them
    bodies = (
        SoftBody.from_surface(surface, material="jelly", method="cubes", cells=4),
        SoftBody.from_surface(surface, method="cubes", cells=4, model="corotated", embedding="barycentric"),
    )
    for body in bodies:
        body.step(1e-3)
        body.energy()


def _cloth() -> None:
    cloth = Cloth(shapes.cloth_grid(3, 3))
    cloth.step(1e-3)
    cloth.energy()


def _worlds() -> None:
    """Small bodies that have vertices in one another, lie in one plane, or cross without; and a large one."""
    world = World()
    for size, center in ((1.0, 0.0), (1.0, 0.5), (0.5, 0.7), ((9.0, 0.1, 0.1), 0.1), (0.2, 0.1)):
        world.add(shapes.box(size, center=(center, 0.0, 0.0) if np.ndim(size) == 0 else (0.0, center, 0.3)))
    world.add(shapes.icosphere(4, center=(0.9, 0.0, 0.0)))
    world.move(np.tile(np.eye(4), (len(world), 1, 1)))
    for name in list(world)[:2]:
        world[name].update(world[name].vertices)
    for options in ({"max_tests": 10**9}, {"method": "pairs"}, {"self_collision": True}):
        world.contacts(**options)
    world.pairs()


def _simulation() -> None:
    """Contacts that push and rub; how they are found has jobs of its own."""
    mesh = shapes.tet_box(1, 1, 1, center=(0.0, 0.0, 0.49))
    world = World()
    world.add(SoftBody(mesh.surface, mesh, material="jelly", embedding="barycentric"))
    Simulation(world, ground=0.0).step(1e-3)


JOBS: dict[str, Callable[[], None]] = {
    "triangle pairs": _pairs,
    "pairs of large bodies": _pairs_of_large_bodies,
    "pairs of moved bodies": _pairs_of_moved_bodies,
    "pairs without structure": _pairs_without_structure,
    "self-collision": _self_pairs,
    "containment": _containment,
    "curves and margins": _curves_and_margins,
    "nearest": _nearest,
    "vertices in tets": _vertices_in_tets,
    "overlap volumes": _overlaps,
    "soft bodies": _soft_bodies,
    "sphere trees": _spheres,
    "worlds": _worlds,
    "cloth": _cloth,
    "simulation": _simulation,
}
"""What is asked, by name; one entry per question that compiles kernels of its own."""


def run_job(name: str) -> Warmed:
    """Run one job, serial and on threads."""
    began = perf_counter()
    with jit.launch_always("serial"):
        JOBS[name]()
    with jit.launch_always("parallel"):
        JOBS[name]()
    return Warmed(name, perf_counter() - began)


def run_jobs(*, processes: int = 1) -> Iterator[Warmed]:
    """Run all jobs, telling of each as it ends; in several processes, since one compiles one function at a time."""
    if processes == 1:
        yield from map(run_job, JOBS)
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_keep_quiet)
    try:
        names = {pool.submit(_run_and_tidy, name): name for name in JOBS}
        for done in as_completed(names):
            error = done.exception()
            if error is not None:
                raise ImpingeError(
                    f"compiling the kernels for {names[done]} failed ({error}); impinge.warmup() shows the whole story"
                ) from error
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _keep_quiet() -> None:
    """Leave it to the first process to tell what happens."""
    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends


def _run_and_tidy(name: str) -> Warmed:
    """Run one job, and let the garbage collector look at what it left for the last time."""
    done = run_job(name)
    gc.collect()
    gc.freeze()
    return done


def warmup() -> float:
    """Compile all kernels for this machine, or load them from the cache; returns the seconds that it took."""
    return sum(job.seconds for job in run_jobs())
