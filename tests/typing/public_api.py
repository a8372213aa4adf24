"""Every public name of impinge, used as an editor and a type checker see it; checked, never run.

``test_public_api.py`` runs mypy and pyright on this file: no expression in it may have the type ``Any``.
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import impinge

Floats = NDArray[np.float64]


def meshes(vertices: Floats, faces: NDArray[np.int32], tets: NDArray[np.int32]) -> impinge.TriMesh:
    a = impinge.TriMesh(vertices, faces, validate="drop")
    t = impinge.TetMesh(vertices, tets)
    a.update(vertices, copy=False, check=True)
    x: Floats = a.vertices
    ids: NDArray[np.int32] = a.add_triangles(faces, vertices=vertices)
    a.remove_triangles(ids)
    t.remove_tets(ids)
    new_id: NDArray[np.int32] = a.compact()
    alive: NDArray[np.bool_] = a.alive
    surface: impinge.TriMesh = t.surface
    volume: float = surface.volume + t.volume
    body = impinge.load("bunny.ply", weld="auto", validate="raise")
    impinge.save(body, Path("copy.ply"))
    report: impinge.ValidationReport = impinge.validate(body)
    moved: Floats = impinge.transform_points(np.eye(4), x)
    box: impinge.TriMesh = impinge.shapes.box(1.0)
    frames: impinge.Sequence = impinge.Sequence("frames")
    print(new_id, alive, volume, report, moved, frames, len(a), a.version)
    return box


def queries(a: impinge.TriMesh, b: impinge.TriMesh, points: Floats) -> None:
    cancel = threading.Event()
    pairs: impinge.TrianglePairs = impinge.triangle_pairs(
        a, b, method="box_tree", transform_a=np.eye(4), active_b=[0, 1], ignore=[[0, 1]], max_pairs=3, cancel=cancel
    )
    rows: NDArray[np.int32] = pairs.pairs
    kind: NDArray[np.int8] = pairs.kind
    complete: bool = pairs.complete
    milliseconds: float = pairs.elapsed_ms
    changes: impinge.Changes = pairs.changes(pairs)
    entered: NDArray[np.int64] = changes.entered
    counts: dict[str, int] = pairs.count_by_kind()
    print(rows, kind, complete, milliseconds, entered, counts, pairs.reason, pairs.method, pairs.ignored)
    own: impinge.TrianglePairs = impinge.self_pairs(a, neighbours="skip", method="auto")
    meets: bool = impinge.collides(a, b)
    inside: NDArray[np.bool_] = impinge.points_inside(a, points, 64)
    nearest: impinge.ClosestPoints = impinge.closest_points(a, points, inside=False)
    gap: impinge.Distance = impinge.distance(a, b, upper=1.0)
    near: impinge.Proximity = impinge.proximity(a, margin=0.1)
    curves: impinge.Curves = impinge.intersection_curves(a, b)
    crossings: impinge.EdgeCrossings = impinge.edge_crossings(a, b)
    overlap: impinge.VolumeOverlap = impinge.overlap_volume(a, b, resolution=64)
    spheres: impinge.SphereContacts = impinge.sphere_contacts(a, b, budget_ms=1.0)
    vertices: impinge.VertexContacts = impinge.penetrating_vertices([a, b], depth=True)
    report: impinge.Report = impinge.check(a, b, depth=False)
    print(own, meets, inside, nearest.distance, gap.point_a, near.vertex_face, curves.segments, crossings.face)
    print(overlap.volume, spheres.complete, vertices.depth, vertices.edges, report.relation, report.pairs)
    parted: impinge.Untangled = impinge.untangle([a, b], max_iterations=5, distance=0.01, fixed=[0], weights=[1.0, 2.0])
    moved: list[Floats] = parted.positions
    print(moved, parted.complete, parted.remaining[0, 1], parted.largest, parted.rms, parted.iterations, parted.reason)
    moving: impinge.Impacts = impinge.impacts(
        a, b, end_a=points, end_b=None, margin=0.1, first_only=True, at_start="skip", transform_b=(None, np.eye(4)),
        cancel=cancel, budget_ms=1.0, max_tests=None,
    )  # fmt: skip
    when: Floats = moving.time
    what: impinge.ImpactKind = impinge.ImpactKind.VERTEX_FACE
    step: impinge.SafeStep = impinge.safe_step(a, end_a=points, per_vertex=True, exclude_rings=1)
    tree = impinge.ContinuousTree(a, b)
    four_points: Floats = np.zeros((2, 4, 3))
    single: impinge.PrimitiveImpacts = impinge.vertex_face_impacts(four_points, four_points, width=1e-6)
    print(single.hit, single.at_start, impinge.edge_edge_impacts(four_points, four_points).time_lo)
    print(when, what, moving.kind, moving.normal, step.fraction, step.positions_a, step.limited_by.feature_a)
    print(tree.query(end_a=points).certain_until, tree.safe_step(end_b=points).touching_at_start)
    edges: impinge.EdgeContacts | None = vertices.edges
    first: impinge.Kind = impinge.Kind.CROSSING
    print(edges, first)


def detectors(a: impinge.TriMesh, b: impinge.TriMesh, t: impinge.TetMesh) -> None:
    box: impinge.TrianglePairs = impinge.BoxTree(a, b).query(max_pairs=10)
    any_pair: bool = impinge.BoxTree(a, b).any_pair()
    breadth: impinge.TrianglePairs = impinge.BreadthFirst(a, b, device="cpu").query()
    brute: impinge.TrianglePairs = impinge.BruteForce(a, neighbours="exact").query()
    cut: impinge.TrianglePairs = impinge.GjkCut(a, b).query()
    kept, rest = impinge.cut_along_direction(a, b, [0.0, 0.0, 1.0])
    hull: impinge.HullDistance = impinge.hull_distance(a, b)
    hashed = impinge.SpatialHash([t, t], cell_size=0.1).query(depth=True)
    volume: impinge.VolumeOverlap = impinge.LayeredDepth(a, b, resolution=64).query()
    ball = impinge.Sphere((0.0, 0.0, 0.0), 1.0)
    ground = impinge.HeightField
    crossings = impinge.Crossings
    gradient: impinge.VolumeGradient = impinge.volume_gradient(a, b)
    gradients = impinge.VolumeGradients(a, b)
    tree: impinge.SphereHierarchy = impinge.build_spheres(a)
    detector = impinge.SphereTree(a, b, tree_a=tree)
    contacts: impinge.SphereContacts = detector.query(budget_ms=1.0)
    shared = impinge.share_budget([detector], budget_ms=2.0)
    force: impinge.Penalty = impinge.penalty(contacts, a.vertices, b.vertices, stiffness=1e3)
    print(box, any_pair, breadth, brute, cut, kept, rest, hull, hashed, volume, ball, ground, crossings)
    print(gradient, gradients, shared, force)


def worlds(a: impinge.TriMesh, vertices: Floats, tets: NDArray[np.int32]) -> None:
    material = impinge.Material(youngs_modulus=1e5, poisson_ratio=0.3, density=1000.0)
    model = impinge.GreenStrain(vertices, tets, material)
    other = impinge.Corotated(vertices, tets, [material, "rubber"])
    third = impinge.StableNeoHookean(vertices, tets, material, elements="smoothed")
    links = impinge.RigidLinks
    weights = impinge.Barycentric
    soft: impinge.SoftBody = impinge.SoftBody.from_surface(a, coarse_faces=1000, elements="smoothed")
    soft.step(1 / 60, gravity=(0.0, 0.0, -9.81))
    velocities: Floats = soft.velocities
    cloth = impinge.Cloth
    rigid: impinge.RigidBody = impinge.RigidBody(a, density=500.0)
    rigid.velocity, rigid.angular_velocity = np.ones(3), np.zeros(3)
    pose: Floats = rigid.pose
    world = impinge.World()
    world.add(soft, name="liver")
    contacts: impinge.Contacts = world.contacts(budget_ms=4.0)
    depth: Floats = contacts.depth
    found: impinge.WorldPairs = world.pairs()
    impacts: impinge.WorldImpacts = world.impacts({"liver": vertices}, self_impacts=True)
    kinds = impinge.ContactKind
    makers = (
        impinge.contacts_from_pairs,
        impinge.contacts_from_spheres,
        impinge.contacts_from_vertices,
        impinge.contacts_from_volume,
    )
    simulation = impinge.Simulation(world, gravity=(0.0, 0.0, -9.81))
    report: impinge.FrameReport = simulation.step(1 / 60)
    pushed: impinge.SimulatedContacts = report.contacts
    scene: impinge.SceneFile = impinge.read_scene("scene.toml")
    particles = impinge.Particles
    names = impinge.scenes.names()
    runs = (impinge.runs.map_frames, impinge.runs.map_pairs)
    print(model, other, third, links, weights, velocities, cloth, depth, found, kinds, makers, report, scene, particles)
    print(impacts.body_a, impacts.names, pose, rigid.velocity, rigid.angular_velocity, rigid.mass, rigid.inertia)
    print(model, other, links, weights, velocities, cloth, depth, found, kinds, makers, report, scene, particles)
    print(names, runs, pushed.force, pushed.normal_force, pushed.sticking, pushed.pressure(0), report.torques)


def machine() -> str:
    impinge.set_threads(1)
    count: int = impinge.thread_count()
    impinge.time_stages(True)
    impinge.warmup()
    errors = (
        impinge.ImpingeError,
        impinge.MeshError,
        impinge.CrossingError,
        impinge.FileError,
        impinge.OptionError,
        impinge.MissingExtra,
        impinge.ClusterError,
        impinge.SimulationError,
        impinge.MeshWarning,
        impinge.SimulationWarning,
    )
    print(count, errors)
    return impinge.__version__
