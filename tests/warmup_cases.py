"""Queries that must not compile anything where all kernels are there: after a warm-up, and with shipped kernels."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Sequence

PRELUDE = """
import json
import numpy as np
import impinge
from impinge.backend import jit

def parallel_triangles(n, *, along):
    "n triangles in planes x = i (along=1) or y = i (along=0): each of one set crosses each of the other"
    x = np.zeros((n, 3, 3))
    x[:, :, 1 - along] = np.arange(n)[:, None]
    x[:, :, along] = [-2.0 * n, 3.0 * n, 0.5 * n]
    x[:, :, 2] = [-1.0 - along, -1.0 - along, 100.0]
    return impinge.TriMesh(x.reshape(-1, 3), np.arange(3 * n).reshape(-1, 3))

def pair():
    return impinge.TriMesh(np.random.default_rng(1).random((6, 3)), [[0, 1, 2], [3, 4, 5]])

def scene(name):
    return impinge.scenes.get(name).bodies[:2]

def ask_all(a, b, **options):
    own = {name: value for name, value in options.items() if not name.endswith("_b")}
    impinge.triangle_pairs(a, b, **options)
    impinge.check(a, b, **options)
    impinge.self_pairs(a, **own)
    impinge.self_pairs(a, neighbours="skip", **own)
"""

CASES = {
    "two triangles": "ask_all(*scene('crossing_triangles'))",
    "coplanar triangles": "ask_all(*scene('coplanar_triangles'))",
    "a body in a body": "ask_all(*scene('nested_spheres'))",
    "a thousand triangles": "ask_all(*scene('bumpy_spheres_1k'))",
    "twenty thousand triangles": "impinge.check(*scene('bumpy_spheres_20k'))",
    "needles": "ask_all(*scene('cad_parts'))",
    "tets": "ask_all(*scene('hashing_setup_a'))",
    "soft bodies": """
        for model in ("green_strain", "corotated"):
            for embedding in ("rigid_links", "barycentric"):
                for subdivisions, cells in ((1, 2), (5, 12)):
                    soft = impinge.SoftBody.from_surface(
                        impinge.shapes.icosphere(subdivisions), material="jelly", method="cubes", cells=cells,
                        model=model, embedding=embedding,
                    )
                    soft.fix([0])
                    soft.step(1e-3, forces=np.zeros_like(soft.coarse.vertices))
                    soft.step(1e-3, integrator="implicit")
                    soft.energy(), soft.momentum()
    """,
    "moving bodies": """
        for name in ("bumpy_spheres_1k", "boxes_overlapping_by_half", "coplanar_triangles"):
            a, b = (impinge.TriMesh(x.vertices, x.faces) for x in scene(name))
            for options in ({}, {"margin": 0.01}, {"first_only": True}, {"max_tests": 10}, {"ignore": [[0, 0]]}):
                impinge.impacts(a, b, end_a=a.vertices + 0.1, **options)
                impinge.impacts(a, b, transform_b=(None, np.eye(4)), **options)
                impinge.impacts(a, end_a=a.vertices + 0.1 * np.sin(9.0 * a.vertices), exclude_rings=1, **options)
        far = impinge.shapes.icosphere(2, center=(0.0, 0.0, 3.0))
        for options in ({}, {"margin": 0.01}, {"per_vertex": True}):
            impinge.safe_step(far, impinge.shapes.icosphere(2), end_a=far.vertices - 2.5, **options)
        impinge.impacts((np.zeros((0, 3)), np.zeros((0, 3), int)), far)
    """,
    "pairs without structure": """
        for name in ("bumpy_spheres_1k", "bumpy_spheres_20k", "boxes_overlapping_by_half", "nested_spheres"):
            a, b = scene(name)
            impinge.triangle_pairs(a, b, method="gjk_cut", transform_a=np.eye(4))
            impinge.triangle_pairs(a, b, method="gjk_cut", active_a=[0, 1], active_b=np.arange(3))
            impinge.self_pairs(a, method="gjk_cut")
            impinge.cut_along_direction(a, b, [0, 0, 1])
            impinge.hull_distance(a, b), impinge.hull_distance([[0, 0, 0]], np.eye(3))
    """,
    "vertices in tets": """
        for name in ("hashing_setup_a", "hashing_setup_c", "poked_tet"):
            bodies = impinge.scenes.get(name).bodies
            for depth in (False, True, "local"):
                impinge.penetrating_vertices(bodies, depth=depth, edges=True)
            impinge.penetrating_vertices(bodies, transforms=[np.eye(4)] * len(bodies), active=[[0]] * len(bodies))
            impinge.penetrating_vertices(bodies[:1])
        impinge.penetrating_vertices([(np.zeros((0, 3)), np.zeros((0, 4), int))], depth=True, edges=True)
    """,
    "overlap volumes": """
        for name in ("boxes_overlapping_by_half", "nested_spheres", "bumpy_spheres_20k"):
            a, b = scene(name)
            impinge.overlap_volume(a, b)
            impinge.overlap_volume(a, b, axes=3, rule="winding", transform_a=np.eye(4))
            impinge.LayeredDepth(a).query()
            impinge.volume_gradient(a, b)
            impinge.points_inside(a, b.vertices, resolution=32)
    """,
    "models of soft bodies": """
        from impinge.deform.integrate import Integrator
        mesh, dense = impinge.shapes.tet_box(12, 12, 12), impinge.shapes.icosphere(4).vertices
        for kind in (impinge.GreenStrain, impinge.Corotated):
            model = kind(mesh.vertices, mesh.tets, "rubber")
            x, v = model.rest.copy(), np.zeros_like(model.rest)
            moved = ([1], (0, 0, 1))
            Integrator(model).advance(x, v, 1e-5, external=mesh.vertices, fixed=[0], prescribed=moved, max_substep=1e-5)
            model.energy(mesh.vertices); model.inverted(x.tolist()); model.forces(x, v)
            impinge.RigidLinks(mesh.vertices, np.unique(mesh.surface.faces), dense).steer(mesh.vertices)
            impinge.Barycentric(mesh.vertices, mesh.tets, dense).steer(mesh.vertices)
    """,
    "sphere trees": """
        for name in ("bumpy_spheres_1k", "bumpy_spheres_20k"):
            for kind in ("wrapped", "layered"):
                impinge.build_spheres(scene(name)[0], builder="octree", kind=kind)
            a, b = scene(name)
            for order in ("breadth", "priority"):
                for tracking in ("paper", "affine", "refit"):
                    impinge.sphere_contacts(a, b, order=order, tracking=tracking, exact=True, budget_ms=None)
                    impinge.sphere_contacts(a, order=order, exact=True, budget_ms=None).to_dict()
                    impinge.sphere_contacts(a, order=order, max_tests=50).to_dict()
                    a.update(a.vertices)
                    impinge.sphere_contacts(a, b, order=order, tracking=tracking, transform_b=np.eye(4), level=2)
    """,
    "vertices in surfaces": """
        for depth in (False, True, "local"):
            impinge.penetrating_vertices(scene("nested_spheres"), depth=depth, edges=True)
            impinge.penetrating_vertices(scene("bumpy_spheres_1k"), depth=depth, edges=True)
    """,
    "rigid bodies": """
        brick = impinge.RigidBody(impinge.shapes.box(1.0, cells=(40, 40, 40)))
        brick.step(1e-3); brick.energy(); brick.momentum(); brick.step(1e-3, integrator="midpoint")
    """,
    "cloth": """
        cloth = impinge.Cloth(impinge.shapes.cloth_grid(80, 80), fixed=[0])
        cloth.step(1e-3); cloth.energy(); cloth.momentum(); cloth.step(1e-3, integrator="implicit")
    """,
    "worlds": """
        from impinge.mesh import shapes
        for name in ("boxes_overlapping_by_half", "nested_spheres", "bumpy_spheres_20k", "crossing_triangles"):
            world = impinge.World()
            for body in scene(name):
                world.add(body)
            world.add(shapes.cloth_grid(3, 3, size=3.0)); world.add(shapes.tet_box(2, 2, 2, size=1.5))
            for method in ("auto", "vertices", "pairs"):
                for options in ({}, {"max_tests": 10**6}, {"budget_ms": 1e6}):
                    world.contacts(method=method, self_collision=True, **options)
            world.update(np.concatenate([world[name].vertices for name in world]))
            world.contacts(); world.pairs(); world.near_pairs()
            world.move(np.tile(np.eye(4), (len(world), 1, 1))); world.contacts()
        impinge.World().contacts(); impinge.World().pairs()
    """,
    "more pairs than one thread sorts": """
        report = impinge.check(parallel_triangles(400, along=0), parallel_triangles(400, along=1))
        assert len(report.pairs) == 160_000
    """,
    "more triangles than one thread scans": "impinge.triangle_pairs(parallel_triangles(70_000, along=1), pair())",
    "no triangles": """
        nothing = impinge.TriMesh([], [])
        ask_all(nothing, nothing); ask_all(nothing, pair()); ask_all(pair(), nothing)
    """,
    "transforms": """
        for matrix in (np.eye(4), np.eye(4).T, np.eye(4, dtype=int), np.eye(4)[::-1][::-1], np.eye(4).tolist()):
            ask_all(*scene("nested_spheres"), transform_a=matrix)
            ask_all(*scene("nested_spheres"), transform_a=matrix, transform_b=matrix)
    """,
    "active triangles": """
        a, b = scene("nested_spheres")
        for ids in ([0], np.arange(5, dtype=np.int64), np.arange(9)[::2], np.arange(len(b)) < 3, []):
            impinge.check(a, b, active_b=ids)
            impinge.check(b, a, active_a=ids, transform_a=np.eye(4))
    """,
    "ignored pairs and a limit": """
        for pairs in ([[0, 0]], np.zeros((1, 2), np.int64), np.zeros((2, 1), np.int32).T, np.zeros((0, 2), np.int64)):
            ask_all(*scene("boxes_overlapping_by_half"), ignore=pairs, max_pairs=np.int64(3))
    """,
    "lists and small numbers": """
        ask_all((CORNERS.tolist(), [[0, 1, 2]]), (CORNERS.astype(np.float32), np.array([[0, 1, 2]], dtype=np.uint8)))
        ask_all((CORNERS.astype(int), np.array([[0, 1, 2]], dtype=np.int64)), (CORNERS.astype(">f8"), [[0, 1, 2]]))
    """,
    "arrays of any layout": """
        for x in (np.asfortranarray(CORNERS), np.repeat(CORNERS, 2, axis=1)[:, ::2], CORNERS[::-1]):
            for copy in (True, False):
                body = impinge.TriMesh(x, np.asfortranarray([[0, 1, 2], [0, 2, 1]]))
                body.update(x, copy=copy)
                ask_all(body, pair()); ask_all(pair(), body)
    """,
    "positions that may not be written": """
        fixed = CORNERS.copy()
        fixed.flags.writeable = False
        body = impinge.TriMesh(fixed, [[0, 1, 2]])
        body.update(fixed, copy=False)
        ask_all(body, body); ask_all(body, pair()); ask_all(pair(), body); ask_all(body, pair(), transform_a=np.eye(4))
        ask_all(*scene("nested_spheres"))
        outer = scene("nested_spheres")[1]
        far = impinge.TriMesh(fixed, [[0, 1, 2]]); far.update(0.001 * fixed, copy=False)
        impinge.check(far, outer); impinge.check(outer, far)
    """,
    "edited bodies": """
        body = pair()
        body.add_triangles([[6, 7, 8]], vertices=CORNERS); ask_all(body, pair())
        body.remove_triangles([0]); ask_all(body, pair()); ask_all(pair(), body)
        body.compact(); ask_all(body, pair())
    """,
    "curves and margins": """
        for a, b in (scene("bumpy_spheres_1k"), scene("boxes_overlapping_by_half"), (pair(), pair())):
            for margin in (0, 0.3, np.float32(0.1)):
                impinge.proximity(a, b, margin=margin, transform_b=np.eye(4)); impinge.proximity(a, margin=margin)
            impinge.proximity(a, b, margin=1.0, active_a=[0], ignore=[[0, 0]])
            impinge.edge_crossings(a, b, active_b=[0]); impinge.intersection_curves(a, b, transform_a=np.eye(4))
            impinge.intersection_curves(a, b, active_a=[])
    """,
    "nearest": """
        fixed = CORNERS.copy()
        fixed.flags.writeable = False
        for a, b in (scene("bumpy_spheres_1k"), scene("nested_spheres"), (pair(), pair())):
            for points in (CORNERS, fixed, CORNERS.astype(np.float32), CORNERS.tolist(), a.vertices, []):
                impinge.closest_points(a, points, active_a=[0, 1]); impinge.points_inside(b, points)
            impinge.distance(a, b, transform_b=np.eye(4), upper=2)
            impinge.distance(b, a, active_a=[0], ignore=[[0, 0]])
        impinge.closest_points((1e90 * CORNERS, [[0, 1, 2]]), fixed)
    """,
    "simulation": """
        mesh = impinge.shapes.tet_box(1, 1, 1, center=(0.0, 0.0, 0.49))
        world = impinge.World()
        world.add(impinge.SoftBody(mesh.surface, mesh, material="jelly", embedding="barycentric"), name="cube")
        impinge.Simulation(world, ground=0.0, friction=0.2).run(0.05)
    """,
    "contact": """
        world = impinge.World()
        for k, x in enumerate((0.0, 0.2)):
            tets = impinge.shapes.tet_box(4, 4, 4, size=(0.1,) * 3, center=(x, 0.0, 0.0501))
            body = impinge.SoftBody(tets.surface, tets, material="liver", embedding="barycentric")
            body.velocities = np.tile([5.0 - 10.0 * k, 0.0, 0.0], (len(body.velocities), 1))
            world.add(body, name=f"soft {k}")
        box = impinge.RigidBody(impinge.shapes.box((0.05, 0.05, 0.05), center=(0.0, 0.0, 0.2)))
        world.add(box, name="rigid")
        world.add(impinge.Cloth(impinge.shapes.cloth_grid(8, 8, size=0.3, center=(0.01, 0.0, 0.3))), name="cloth")
        world.add(impinge.shapes.box(0.2, center=(0.5, 0.0, 0.1)), name="block", fixed=True)
        reports = impinge.Simulation(world, ground=0.0, restitution=0.3).run(0.3)
        reports[-1].contacts.to_dict(), reports[-1].pressure, reports[-1].torques
    """,
    "other thread counts": """
        for count in (1, jit.thread_count()):
            impinge.set_threads(count); ask_all(*scene("bumpy_spheres_1k"))
    """,
}
"""Queries by name, as Python code."""


def compiled_by(python: Sequence[str], environment: dict[str, str]) -> dict[str, list[str]]:
    """Functions compiled by each query, one after the other in one new process of ``python``."""
    lines = [PRELUDE, "CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])", "compiled = {}"]
    for name, code in CASES.items():
        lines += [textwrap.dedent(code), f"compiled[{name!r}] = list(jit.compilations); jit.compilations.clear()"]
    command = [*python, "-c", "\n".join([*lines, "print(json.dumps(compiled))"])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)

    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found
