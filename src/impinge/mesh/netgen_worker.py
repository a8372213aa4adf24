"""Fill a closed surface with tetrahedra by NetGen, in a separate process: ``python -m ... IN.npz OUT.npz MESH_SIZE``.

NetGen prints to the terminal, may end the process and may never return. The parent process captures the output, reads
the exit code and enforces a time limit. NetGen orders the corners of a tet in the opposite orientation and counts
vertices from one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np


def main(source: str, target: str, mesh_size: float) -> None:
    """Read a surface, fill it without changing its triangles, and write vertices and tets."""
    from netgen.meshing import FaceDescriptor, Mesh, MeshingParameters

    with np.load(source) as surface:
        vertices, faces = surface["vertices"], surface["faces"]
    mesh = Mesh(3)
    region = mesh.Add(FaceDescriptor(surfnr=1, domin=1, domout=0, bc=1))
    mesh.AddPoints(np.ascontiguousarray(vertices, dtype=np.float64))
    mesh.AddElements(dim=2, index=region, data=np.ascontiguousarray(faces, dtype=np.int32), base=0)
    mesh.GenerateVolumeMesh(mp=MeshingParameters(maxh=mesh_size))
    if len(mesh.Elements3D()) == 0:
        sys.exit("NetGen made no tets")
    corners = mesh.Elements3D().NumPy()["nodes"][:, :4] - 1
    with Path(target).open("wb") as file:
        np.savez(file, vertices=mesh.Coordinates(), tets=corners[:, [0, 1, 3, 2]].astype(np.int32))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
