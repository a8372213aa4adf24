"""Vector instructions: eight boxes, spheres, tets or triangles per step.

Imports: ``backend`` only.
Imports no room; exactness is decided in ``exact``, never here.
"""
