"""Collision detection between deformable bodies: exact, update-first, on NumPy arrays.

    import impinge

    a = impinge.load("bunny.ply")
    b = impinge.TriMesh(vertices, faces)
    result = impinge.triangle_pairs(a, b)     # every pair of triangles that meet
    b.update(new_vertices)                    # next frame

Names are loaded when first used, so that ``import impinge`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from impinge import runs as runs
    from impinge import scenes as scenes
    from impinge.app.warmup import warmup
    from impinge.backend.jit import set_threads, thread_count
    from impinge.backend.stages import time_stages
    from impinge.bodies.soft_body import SoftBody
    from impinge.contact.contacts import (
        ContactKind,
        Contacts,
        contacts_from_pairs,
        contacts_from_spheres,
        contacts_from_vertices,
        contacts_from_volume,
    )
    from impinge.contact.volume_gradient import VolumeGradient, VolumeGradients, volume_gradient
    from impinge.deform.barycentric import Barycentric
    from impinge.deform.fem import Corotated, GreenStrain
    from impinge.deform.materials import Material
    from impinge.deform.rigid_links import RigidLinks
    from impinge.detect.box_tree.detector import BoxTree
    from impinge.detect.breadth_first.detector import BreadthFirst
    from impinge.detect.common.brute_force import BruteForce
    from impinge.detect.common.nearest_results import (
        ClosestPoints,
        Curves,
        Distance,
        EdgeCrossings,
        HullDistance,
        Proximity,
    )
    from impinge.detect.common.results import Changes, EdgeContacts, Kind, TrianglePairs, VertexContacts
    from impinge.detect.gjk_cut.detector import GjkCut, cut_along_direction
    from impinge.detect.gjk_cut.hull_distance import hull_distance
    from impinge.detect.layered_depth.detector import LayeredDepth
    from impinge.detect.layered_depth.sources import Crossings, HeightField, Sphere
    from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
    from impinge.detect.spatial_hash.detector import SpatialHash
    from impinge.detect.sphere_tree.build.build import build_spheres
    from impinge.detect.sphere_tree.contacts import SphereContacts
    from impinge.detect.sphere_tree.detector import SphereTree
    from impinge.detect.sphere_tree.hierarchy import SphereHierarchy
    from impinge.detect.sphere_tree.sharing import share_budget
    from impinge.errors import ClusterError, FileError, ImpingeError, MeshError, MeshWarning, MissingExtra, OptionError
    from impinge.io.sequence import Sequence
    from impinge.mesh import shapes as shapes
    from impinge.mesh.body import load, save
    from impinge.mesh.tet_mesh import TetMesh
    from impinge.mesh.transform import transform_points
    from impinge.mesh.tri_mesh import TriMesh
    from impinge.mesh.validation import ValidationReport, validate
    from impinge.queries import (
        Report,
        check,
        closest_points,
        collides,
        distance,
        edge_crossings,
        intersection_curves,
        overlap_volume,
        penetrating_vertices,
        points_inside,
        proximity,
        self_pairs,
        sphere_contacts,
        triangle_pairs,
    )
    from impinge.respond.penalty import Penalty, penalty
    from impinge.simulate.report import FrameReport
    from impinge.simulate.simulation import Simulation, SimulationError
    from impinge.world.world import World, WorldPairs

_NAMES_OF = {
    "impinge.mesh.tri_mesh": ["TriMesh"],
    "impinge.mesh.tet_mesh": ["TetMesh"],
    "impinge.mesh.body": ["load", "save"],
    "impinge.mesh.transform": ["transform_points"],
    "impinge.deform.materials": ["Material"],
    "impinge.bodies.soft_body": ["SoftBody"],
    "impinge.bodies.cloth": ["Cloth"],
    "impinge.mesh.validation": ["validate", "ValidationReport"],
    "impinge.io.sequence": ["Sequence"],
    "impinge.queries": [
        "triangle_pairs", "self_pairs", "collides", "check", "proximity", "intersection_curves", "edge_crossings",
        "closest_points", "points_inside", "distance", "penetrating_vertices", "overlap_volume",
        "sphere_contacts", "Report",
    ],
    "impinge.detect.sphere_tree.detector": ["SphereTree"],
    "impinge.detect.sphere_tree.sharing": ["share_budget"],
    "impinge.respond.penalty": ["Penalty", "penalty"],
    "impinge.detect.spatial_hash.detector": ["SpatialHash"],
    "impinge.detect.sphere_tree.build.build": ["build_spheres"],
    "impinge.detect.sphere_tree.hierarchy": ["SphereHierarchy"],
    "impinge.detect.gjk_cut.detector": ["GjkCut", "cut_along_direction"],
    "impinge.detect.gjk_cut.hull_distance": ["hull_distance"],
    "impinge.detect.layered_depth.detector": ["LayeredDepth"],
    "impinge.detect.layered_depth.sources": ["Crossings", "HeightField", "Sphere"],
    "impinge.contact.volume_gradient": ["VolumeGradient", "VolumeGradients", "volume_gradient"],
    "impinge.deform.fem": ["GreenStrain", "Corotated"],
    "impinge.deform.rigid_links": ["RigidLinks"],
    "impinge.deform.barycentric": ["Barycentric"],
    "impinge.detect.box_tree.detector": ["BoxTree"],
    "impinge.detect.breadth_first.detector": ["BreadthFirst"],
    "impinge.detect.common.brute_force": ["BruteForce"],
    "impinge.detect.common.results": ["Kind", "Changes", "TrianglePairs", "VertexContacts", "EdgeContacts"],
    "impinge.detect.layered_depth.volume_overlap": ["VolumeOverlap"],
    "impinge.detect.sphere_tree.contacts": ["SphereContacts"],
    "impinge.detect.common.nearest_results": [
        "ClosestPoints", "Distance", "Proximity", "Curves", "EdgeCrossings", "HullDistance",
    ],
    "impinge.contact.contacts": [
        "Contacts", "ContactKind", "contacts_from_vertices", "contacts_from_pairs", "contacts_from_volume",
        "contacts_from_spheres",
    ],
    "impinge.backend.jit": ["set_threads", "thread_count"],
    "impinge.backend.stages": ["time_stages"],
    "impinge.world.world": ["World", "WorldPairs"],
    "impinge.simulate.simulation": ["Simulation", "SimulationError"],
    "impinge.simulate.report": ["FrameReport"],
    "impinge.scenes.scene_file": ["read_scene", "SceneFile"],
    "impinge.simulate.particles": ["Particles"],
    "impinge.app.warmup": ["warmup"],
    "impinge.errors": [
        "ImpingeError", "MeshError", "FileError", "OptionError", "MissingExtra", "ClusterError", "MeshWarning",
    ],
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
_MODULE_OF_MODULE = {"runs": "impinge.runs", "scenes": "impinge.scenes", "shapes": "impinge.mesh.shapes"}

__all__ = [
    "TriMesh", "TetMesh", "load", "save", "validate", "ValidationReport", "transform_points", "Sequence",
    "triangle_pairs", "self_pairs", "collides", "check", "Report",
    "proximity", "intersection_curves", "edge_crossings", "closest_points", "points_inside", "distance",
    "penetrating_vertices", "overlap_volume", "volume_gradient",
    "BoxTree", "BreadthFirst", "BruteForce", "SpatialHash", "LayeredDepth", "VolumeGradients", "GjkCut",
    "cut_along_direction", "hull_distance", "HullDistance", "build_spheres", "SphereHierarchy",
    "Crossings", "HeightField", "Sphere", "VolumeGradient",
    "SoftBody", "Material", "GreenStrain", "Corotated", "RigidLinks", "Barycentric",
    "SphereTree", "sphere_contacts", "share_budget", "penalty", "Penalty",
    "Kind", "Changes", "TrianglePairs", "VertexContacts", "VolumeOverlap", "SphereContacts", "ClosestPoints",
    "Distance", "Proximity", "Curves", "EdgeCrossings", "EdgeContacts", "Contacts", "ContactKind",
    "contacts_from_vertices", "contacts_from_pairs", "contacts_from_volume", "contacts_from_spheres",
    "World", "WorldPairs", "Simulation", "SimulationError", "FrameReport", "read_scene", "SceneFile",
    "Cloth", "Particles",
    "scenes", "shapes", "runs",
    "set_threads", "thread_count", "time_stages", "warmup",
    "ImpingeError", "MeshError", "FileError", "OptionError", "MissingExtra", "ClusterError", "MeshWarning",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF_MODULE:
        value: Any = import_module(_MODULE_OF_MODULE[name])
    elif name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module 'impinge' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
