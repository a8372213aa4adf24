"""3x3 matrices in registers, for ``fem_kernels``: products, cofactors, and the nearest rotation.

Matrices are tuples of nine numbers, row by row; symmetric ones of six: 00, 11, 22, 01, 02, 12. All functions but
``nearest_rotation`` are free of branches: loops over tets become vector instructions.
"""

# mypy: ignore-errors

import math

import numpy as np

from impinge.backend.jit import compiled, contracted

NEWTON_STEPS = 10
"""Enough for an error of 1e-13 in any entry of a rotation that is not ambiguous."""
AMBIGUOUS = 0.1
"""Size of 2 (s1 + s2)(s2 + s3)(s3 + s1) relative to (s1 + s2 + s3)³ (0.59 at rest) below which the closed form of the
rotation is not used: two rotations are nearly as good, and Newton's method slows down."""
JACOBI_SWEEPS = 10
"""More than a matrix of this size needs: convergence is quadratic from the third or so."""


@contracted
def products(f, g):
    """The symmetric part of Fᵀ G."""
    return (
        f[0] * g[0] + f[3] * g[3] + f[6] * g[6],
        f[1] * g[1] + f[4] * g[4] + f[7] * g[7],
        f[2] * g[2] + f[5] * g[5] + f[8] * g[8],
        0.5 * ((f[0] * g[1] + f[3] * g[4] + f[6] * g[7]) + (g[0] * f[1] + g[3] * f[4] + g[6] * f[7])),
        0.5 * ((f[0] * g[2] + f[3] * g[5] + f[6] * g[8]) + (g[0] * f[2] + g[3] * f[5] + g[6] * f[8])),
        0.5 * ((f[1] * g[2] + f[4] * g[5] + f[7] * g[8]) + (g[1] * f[2] + g[4] * f[5] + g[7] * f[8])),
    )


@contracted
def times_symmetric(f, s):
    """F S."""
    return (
        f[0] * s[0] + f[1] * s[3] + f[2] * s[4], f[0] * s[3] + f[1] * s[1] + f[2] * s[5],
        f[0] * s[4] + f[1] * s[5] + f[2] * s[2],
        f[3] * s[0] + f[4] * s[3] + f[5] * s[4], f[3] * s[3] + f[4] * s[1] + f[5] * s[5],
        f[3] * s[4] + f[4] * s[5] + f[5] * s[2],
        f[6] * s[0] + f[7] * s[3] + f[8] * s[4], f[6] * s[3] + f[7] * s[1] + f[8] * s[5],
        f[6] * s[4] + f[7] * s[5] + f[8] * s[2],
    )  # fmt: skip


@contracted
def combined(a, f, b, g):
    """A F + b G, for numbers a and b."""
    return (
        a * f[0] + b * g[0], a * f[1] + b * g[1], a * f[2] + b * g[2],
        a * f[3] + b * g[3], a * f[4] + b * g[4], a * f[5] + b * g[5],
        a * f[6] + b * g[6], a * f[7] + b * g[7], a * f[8] + b * g[8],
    )  # fmt: skip


@contracted
def cofactors(f):
    """The derivative of det F with respect to F."""
    return (
        f[4] * f[8] - f[5] * f[7], f[5] * f[6] - f[3] * f[8], f[3] * f[7] - f[4] * f[6],
        f[2] * f[7] - f[1] * f[8], f[0] * f[8] - f[2] * f[6], f[1] * f[6] - f[0] * f[7],
        f[1] * f[5] - f[2] * f[4], f[2] * f[3] - f[0] * f[5], f[0] * f[4] - f[1] * f[3],
    )  # fmt: skip


@contracted
def determinant(f, cofactor):
    """The determinant, from the cofactors of F."""
    return f[0] * cofactor[0] + f[1] * cofactor[1] + f[2] * cofactor[2]


@contracted
def dot(p, q):
    """Sum of the products of entries."""
    return (
        (p[0] * q[0] + p[1] * q[1] + p[2] * q[2])
        + (p[3] * q[3] + p[4] * q[4] + p[5] * q[5])
        + (p[6] * q[6] + p[7] * q[7] + p[8] * q[8])
    )


@contracted
def sum_of_squares(f):
    """‖F‖²."""
    return dot(f, f)


@contracted
def largest_eigenvalue_bound(c):
    """No eigenvalue of a symmetric matrix exceeds its mean plus √(2/3) of the norm of what deviates from it."""
    mean = (c[0] + c[1] + c[2]) / 3.0
    x, y, z = c[0] - mean, c[1] - mean, c[2] - mean
    return mean + math.sqrt((x * x + y * y + z * z + 2.0 * (c[3] * c[3] + c[4] * c[4] + c[5] * c[5])) * (2.0 / 3.0))


@contracted
def _trace_of_stretch(a, b, j):
    """The sum t of the singular values of F, the last one negative if det F is; a = ‖F‖², b = ‖cof F‖², j = det F.

    t² = a + 2 i2 and i2² = b + 2 j t make it the largest root of (t² - a)² - 8 j t - 4 b. Beyond that root the quartic
    is convex: Newton's method descends to it from √(3 a).
    """
    t = math.sqrt(3.0 * a)
    for _ in range(NEWTON_STEPS):
        u = t * t - a
        slope = 4.0 * t * u - 8.0 * j
        t -= (u * u - 8.0 * j * t - 4.0 * b) / (slope if slope > 0.0 else 1.0)
    return t


@contracted
def rotation(f, cofactor):
    """R of the polar decomposition, t = tr(Rᵀ F), and d = 2 (s1 + s2)(s2 + s3)(s3 + s1), a measure of its conditioning.

    R is the derivative of t with respect to F. Differentiating the quartic of ``_trace_of_stretch`` gives
    R = ((t² + a) F + 2 t cof F - 2 F Fᵀ F) / d,  d = t (t² - a) - 2 j.
    """
    a = sum_of_squares(f)
    j = determinant(f, cofactor)
    t = _trace_of_stretch(a, sum_of_squares(cofactor), j)
    d = t * (t * t - a) - 2.0 * j
    cube = times_symmetric(f, products(f, f))
    scale = 1.0 / (d if d > 0.0 else 1.0)
    linear = combined(scale * (t * t + a), f, 2.0 * scale * t, cofactor)
    return combined(1.0, linear, -2.0 * scale, cube), t, d


@compiled
def _turn(n, q, i, j):
    """Jacobi rotation of a symmetric 4 by 4 matrix that zeroes entry (i, j); q accumulates the rotations."""
    theta = 0.5 * (n[5 * j] - n[5 * i]) / n[4 * i + j]
    t = (1.0 if theta >= 0.0 else -1.0) / (abs(theta) + math.sqrt(theta * theta + 1.0))
    c = 1.0 / math.sqrt(t * t + 1.0)
    s = t * c
    for k in range(4):
        a, b = n[4 * k + i], n[4 * k + j]
        n[4 * k + i], n[4 * k + j] = c * a - s * b, s * a + c * b
        a, b = q[4 * k + i], q[4 * k + j]
        q[4 * k + i], q[4 * k + j] = c * a - s * b, s * a + c * b
    for k in range(4):
        a, b = n[4 * i + k], n[4 * j + k]
        n[4 * i + k], n[4 * j + k] = c * a - s * b, s * a + c * b
    n[4 * i + j] = n[4 * j + i] = 0.0


@compiled
def nearest_rotation(f):
    """The rotation R with the largest tr(Rᵀ F), for any F: the first eigenvector of a 4 by 4 matrix, as a quaternion.

    [Horn1987]; eigenvectors by cyclic Jacobi rotations. Among equally near rotations, one.
    """
    n, q = np.empty(16), np.empty(16)
    n[0], n[5], n[10], n[15] = f[0] + f[4] + f[8], f[0] - f[4] - f[8], -f[0] + f[4] - f[8], -f[0] - f[4] + f[8]
    n[1], n[2], n[3] = f[7] - f[5], f[2] - f[6], f[3] - f[1]
    n[6], n[7], n[11] = f[3] + f[1], f[2] + f[6], f[7] + f[5]
    n[4], n[8], n[12], n[9], n[13], n[14] = n[1], n[2], n[3], n[6], n[7], n[11]
    for k in range(16):
        q[k] = 1.0 if k % 5 == 0 else 0.0
    for _ in range(JACOBI_SWEEPS):
        for i in range(3):
            for j in range(i + 1, 4):
                if n[4 * i + j] != 0.0:
                    _turn(n, q, i, j)
    best = 0
    for k in range(1, 4):
        if n[5 * k] > n[5 * best]:
            best = k
    w, x, y, z = q[best], q[4 + best], q[8 + best], q[12 + best]
    return (
        1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y),
    )  # fmt: skip
