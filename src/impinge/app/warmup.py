"""Compilation of all kernels ahead of the first query.

Each job runs queries on a few triangles: kernels are compiled by running them, and the list is complete if it contains
every query once. A test counts the kernels compiled afterwards: none. Threaded variants, a third of the time, are
compiled when a query first needs them, or here on request.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Literal

import numpy as np

import impinge
from impinge import queries, scenes
from impinge.backend import jit
from impinge.backend.sort import sort_keys
from impinge.checks import as_flag
from impinge.contact.volume_gradient import VolumeGradients
from impinge.deform.implicit.system import ImplicitSystem
from impinge.deform.integrate import Integrator
from impinge.errors import ImpingeError
from impinge.mesh import shapes

METHODS: tuple[queries.PairMethod, ...] = ("box_tree", "breadth_first", "brute_force", "spatial_hash")


def _pairs() -> None:
    for method in METHODS:
        # This scene has many pairs (a single pair is not sorted), and pairs that need the exact predicates.
        queries.triangle_pairs(*scenes.get("boxes_overlapping_by_half").bodies, method=method)


def _box_tree() -> None:
    """Box trees query small bodies in one call, large ones in several launches, and sort many keys by radix."""
    for name in ("boxes_overlapping_by_half", "bumpy_spheres_20k"):
        a, b = scenes.get(name).surfaces
        a.update(a.vertices)
        for transform in (None, np.eye(4)):
            queries.triangle_pairs(a, b, method="box_tree", transform_a=transform)
    sort_keys(np.arange(2, dtype=np.uint64))


def _gjk_cut() -> None:
    """Two bodies and self-collision; many triangles are searched in slabs."""
    for name in ("boxes_overlapping_by_half", "bumpy_spheres_20k"):
        a, b = scenes.get(name).surfaces
        queries.triangle_pairs(a, b, method="gjk_cut")
    queries.self_pairs(scenes.get("boxes_overlapping_by_half").surfaces[0], method="gjk_cut")
    impinge.cut_along_direction(a, b, (1.0, 0.0, 0.0))
    impinge.hull_distance(a, b)


def _self_collision() -> None:
    for method in METHODS:
        queries.self_pairs(scenes.get("boxes_overlapping_by_half").bodies[0], method=method)
    queries.self_pairs(scenes.get("bumpy_spheres_20k").surfaces[0], method="box_tree")


def _containment() -> None:
    queries.check(*scenes.get("nested_spheres").bodies)


def _curves_and_margins() -> None:
    a, b = scenes.get("boxes_overlapping_by_half").bodies
    impinge.intersection_curves(a, b)
    impinge.edge_crossings(a, b)
    impinge.proximity(a, b, margin=0.1, ignore=[[0, 0]])
    impinge.proximity(a, margin=0.1)


def _moving_bodies() -> None:
    """Impacts that doubles decide and that need exact arithmetic, within a margin, and safe steps."""
    a, b = shapes.icosphere(1), shapes.box(1.0, center=(0.1, 0.2, 3.0))
    down, aside = np.array([0.0, 0.0, 3.0]), np.array([0.3, 0.2, 3.1])
    for end in (b.vertices - down, b.vertices - aside):
        for margin in (0.0, 0.1):
            impinge.impacts(a, b, end_b=end, margin=margin)
            impinge.safe_step(a, b, end_b=end, margin=margin, per_vertex=True)
    impinge.impacts(a, end_a=a.vertices + np.sin(9.0 * a.vertices), first_only=True)
    impinge.impacts(shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 1.0)))  # touch: exact arithmetic


def _nearest() -> None:
    """Nested spheres: points inside and outside, and distances that occupy all threads."""
    inner, outer = shapes.icosphere(3), shapes.icosphere(3, radius=1.1)
    impinge.closest_points(outer, np.concatenate([inner.vertices, 2.0 * inner.vertices]))
    impinge.distance(inner, outer)
    impinge.distance(outer, outer)


def _vertices_in_tets() -> None:
    """Tet boxes with coplanar faces, which need exact predicates, and closed surfaces."""
    tets = shapes.tet_box(2, 1, 1), shapes.tet_box(2, 2, 1, center=(0.0, 0.0, 0.5))
    nested = shapes.tet_box(1, 1, 1), shapes.tet_box(1, 1, 1, size=0.2)
    for bodies in (tets, nested, [tet.surface for tet in tets]):
        queries.penetrating_vertices(bodies, depth=True, edges=True)
    queries.penetrating_vertices(tets, depth="local")
    queries.penetrating_vertices([shapes.box(), shapes.box()], depth="local")  # vertices on the surface


def _overlap_volumes() -> None:
    """Volumes along all axes, self-overlap, and point queries on images."""
    a, b = scenes.get("boxes_overlapping_by_half").surfaces
    queries.overlap_volume(a, b, axes=3)
    queries.overlap_volume(shapes.box(1e12), a)  # too large to snap to the pixels of the overlap
    both = impinge.TriMesh(np.concatenate([a.vertices, b.vertices]), np.concatenate([a.faces, b.faces + 8]))
    impinge.LayeredDepth(both).query()
    queries.points_inside(a, b.vertices, resolution=16)
    impinge.volume_gradient(a, b)
    VolumeGradients(a, b).cells(1.0)


def _sphere_trees() -> None:
    """Both builders, both orders, all trackings."""
    impinge.build_spheres(shapes.box(), builder="octree", kind="layered", levels=2)
    impinge.build_spheres(shapes.icosphere(2), builder="medial", levels=3)
    a, b = scenes.get("boxes_overlapping_by_half").surfaces
    queries.sphere_contacts(a, b, budget_ms=None, exact=True)
    queries.sphere_contacts(a, b, tracking="affine", budget_ms=None)
    layered = impinge.build_spheres(a, builder="octree", kind="layered", levels=2)
    queries.sphere_contacts(a, b, tree_a=layered, order="priority", transform_a=np.eye(4), budget_ms=None)
    bumpy_a, bumpy_b = scenes.get("bumpy_spheres_1k").surfaces
    queries.sphere_contacts(bumpy_a, bumpy_b, queue_limit=1, budget_ms=None)
    queries.sphere_contacts(bumpy_a, bumpy_b, max_tests=50)
    queries.sphere_contacts(bumpy_a, level=1, budget_ms=None).to_dict()
    ball, same = shapes.icosphere(3), shapes.icosphere(3)  # overlap everywhere: more pairs than the initial queue holds
    pairs = impinge.build_spheres(ball, builder="octree", branching=2, levels=10)
    queries.sphere_contacts(ball, same, tree_a=pairs, tree_b=pairs, budget_ms=None)


def _soft_bodies() -> None:
    """Models and embeddings alone and in bodies, whose positions are read-only arrays."""
    mesh, dense = shapes.tet_box(2, 2, 2), shapes.box(1.0)
    model = impinge.GreenStrain(mesh.vertices, mesh.tets, "jelly")
    x, v = model.rest.copy(), np.zeros_like(model.rest)
    Integrator(model).advance(x, v, 1e-3, gravity=(0.0, 0.0, -9.81))
    for threaded_from in (0, 10**9):  # threads inside of large bodies, and side by side for small ones
        ImplicitSystem([model], threaded_from=threaded_from).step(x, v, 1e-3)
    links = impinge.RigidLinks(model.rest, np.unique(mesh.surface.faces), dense.vertices)
    links.steer(x)
    links.handles(model.rest)
    impinge.Barycentric(model.rest, model.tets, dense.vertices).steer(x)
    surface = shapes.icosphere(4)  # enough vertices for the kernel that copies them
    bodies = (
        impinge.SoftBody.from_surface(surface, material="jelly", method="cubes", cells=4),
        impinge.SoftBody.from_surface(surface, method="cubes", cells=4, model="corotated", embedding="barycentric"),
    )
    for body in bodies:
        body.step(1e-3)
        body.energy()


def _rigid_bodies() -> None:
    body = impinge.RigidBody(shapes.box(1.0))
    body.step(1e-3)
    body.energy()


def _cloth() -> None:
    cloth = impinge.Cloth(shapes.cloth_grid(3, 3))
    cloth.step(1e-3)
    cloth.energy()


def _worlds() -> None:
    """Small bodies with penetrating vertices, coplanar faces or crossing edges only, and a large body."""
    world = impinge.World()
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
    """Contact and friction forces, and dense surfaces whose contacts are merged; other jobs cover the search."""
    pile = impinge.World()
    for height in (0.3, 0.7):
        ball = shapes.icosphere(3, radius=0.25, center=(0.0, 0.0, height))
        pile.add(impinge.SoftBody.from_surface(ball, method="cubes", cells=2, material="jelly"))
    for response in ("contact", "vertices", "volume", "spheres"):
        impinge.Simulation(pile, ground=0.06, response=response).step(1e-3)
    mesh = shapes.tet_box(1, 1, 1, center=(0.0, 0.0, 0.49))
    world = impinge.World()
    world.add(impinge.SoftBody(mesh.surface, mesh, material="jelly", embedding="barycentric"))
    impinge.Simulation(world, ground=0.0).step(1e-3)
    _contacts_that_hold()


def _contacts_that_hold() -> None:
    """Soft, rigid and scripted bodies and cloth that meet fast, cross at the start, and rest; their forces."""
    world = impinge.World()
    for name, x in (("left", 0.0), ("right", 0.25), ("crossing", 0.5), ("crossed", 0.55)):
        tets = shapes.tet_box(3, 3, 3, size=(0.1, 0.1, 0.1), center=(x, 0.01 * x, 0.0502))
        body = impinge.SoftBody(tets.surface, tets, material="jelly", embedding="barycentric")
        body.velocities = np.tile([10.0 if name == "left" else 0.0, 0.0, 0.0], (len(body.velocities), 1))
        world.add(body, name=name)
    ball = impinge.RigidBody(shapes.icosphere(2, radius=0.03))
    ball.pose = np.block([[np.eye(3), np.array([[0.25], [0.0], [0.2]])], [np.zeros((1, 3)), np.ones((1, 1))]])
    ball.velocity = (0.0, 0.0, -5.0)
    world.add(ball, name="ball")
    world.add(impinge.Cloth(shapes.cloth_grid(6, 6, size=0.3, center=(0.0, 0.0, 0.13))), name="cloth")
    world.add(shapes.box((0.1, 0.1, 0.02), center=(0.25, 0.0, -0.1)), name="pusher")
    simulation = impinge.Simulation(world, ground=0.0, restitution=0.5)
    simulation.script("pusher", lambda t: shapes.box((0.1, 0.1, 0.02), center=(0.25, 0.0, -0.1 + t)).vertices)
    for report in simulation.run(0.2):
        report.pressure.values()
    impinge.untangle([shapes.box(1.0), shapes.box(1.0, center=(0.9, 0.1, 0.2))])


_JOBS = (
    _pairs, _box_tree, _gjk_cut, _self_collision, _containment,
    _curves_and_margins, _moving_bodies, _nearest, _vertices_in_tets, _overlap_volumes, _soft_bodies, _sphere_trees,
    _worlds, _cloth, _rigid_bodies, _simulation,
)  # fmt: skip
JOBS = {job.__name__[1:].replace("_", " "): job for job in _JOBS}
"""Jobs by name; one per query that compiles its own kernels."""


def run_job(name: str, *, threads: bool = False) -> str:
    """Run one job serially, and on threads on request; return its name."""
    variants: tuple[Literal["serial", "parallel"], ...] = ("serial", "parallel") if threads else ("serial",)
    for launch in variants:
        with jit.launch_always(launch):
            JOBS[name]()
    return name


def run_jobs(*, processes: int = 1, threads: bool = False) -> Iterator[str]:
    """Run all jobs and yield their names as they finish; each process compiles one function at a time."""
    if processes == 1:
        for name in JOBS:
            yield run_job(name, threads=threads)
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_silence)
    try:
        names = {pool.submit(_run_and_freeze, name, threads): name for name in JOBS}
        for done in as_completed(names):
            error = done.exception()
            if error is not None:
                failed = f"compiling the kernels for {names[done]} failed ({error})"
                raise ImpingeError(f"{failed}; impinge.warmup() shows the traceback") from error
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _silence() -> None:
    """Discard stderr; the parent process reports progress."""
    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends


def _run_and_freeze(name: str, threads: bool) -> str:
    """Run one job, then exclude its objects from later garbage collections."""
    run_job(name, threads=threads)
    gc.collect()
    gc.freeze()
    return name


def warmup(*, threads: bool = False) -> float:
    """Compile all kernels for this machine, or load them from the cache.

    Parameters
    ----------
    threads
        Compile the threaded variants, too; otherwise the first large query of each kind compiles its own.

    Returns
    -------
    float
        Elapsed time in seconds.
    """
    threads = as_flag(threads, "threads")
    began = perf_counter()
    for _ in run_jobs(threads=threads):
        pass
    return perf_counter() - began
