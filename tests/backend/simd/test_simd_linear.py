"""Vector code of linear algebra equals NumPy's on dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from impinge.backend.jit import compiled
from impinge.backend.simd.linear import PANEL, add_outer, multiply_blocks, multiply_row
from impinge.deform.implicit.coarse_kernels import factorise, solve

pytestmark = [pytest.mark.small, pytest.mark.tiny]


@compiled
def product(row_start, column, value, diagonal, is_left_out, vector, image, lo, hi):
    return multiply_blocks(row_start, column, value, diagonal, is_left_out, vector, image, lo, hi)


@compiled
def row_product(column, value, vector, lo, hi):
    return multiply_row(column, value, vector, lo, hi)


@compiled
def outer(matrix, at, stride, factors, left, right):
    add_outer(matrix, at, stride, factors, left, right)


def blocks(rng, count):
    """Blocks of a random symmetric matrix in compressed rows, the diagonal, and the dense matrix."""
    dense = np.zeros((count, 3, count, 3))
    for i in range(count):
        own = rng.normal(size=(3, 3))
        dense[i, :, i] = own + own.T
        for j in range(i):
            if rng.random() < 0.4:
                dense[i, :, j] = rng.normal(size=(3, 3))
                dense[j, :, i] = dense[i, :, j].T
    is_there = (dense != 0.0).any(axis=(1, 3)) & ~np.eye(count, dtype=bool)
    row, column = np.nonzero(is_there)
    value = np.append(dense[row, :, column].transpose(0, 2, 1), 0.0)
    row_start = np.append(0, np.cumsum(is_there.sum(axis=1)))
    own = dense[np.arange(count), :, np.arange(count)]
    diagonal = own[:, [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]].reshape(-1)
    return row_start, column.astype(np.int32), value, diagonal, dense.reshape(3 * count, 3 * count)


def test_product_of_blocks(rng):
    """Write only the rows of the range, zeros where a vertex is left out, and return the dot product of these rows."""
    row_start, column, value, diagonal, dense = blocks(rng, 12)
    is_left_out = np.zeros(12, dtype=np.uint8)
    is_left_out[5] = 1
    vector, image = rng.normal(size=36), np.full(36, np.nan)

    total = product(row_start, column, value, diagonal, is_left_out, vector, image, 2, 11)

    expected = dense @ vector
    expected[15:18] = 0.0
    np.testing.assert_allclose(image[6:33], expected[6:33], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(total, vector[6:33] @ expected[6:33], rtol=1e-12)
    assert np.isnan(image[:6]).all()
    assert np.isnan(image[33:]).all()


def test_product_of_one_row(rng):
    """Sum blocks times the vertices of one row."""
    value, vector = rng.normal(size=9 * 7 + 1), rng.normal(size=30)
    vertex = rng.integers(0, 10, 7)

    found = row_product(vertex, value, vector, 2, 6)

    expected = sum(value[9 * e : 9 * e + 9].reshape(3, 3).T @ vector.reshape(-1, 3)[vertex[e]] for e in range(2, 6))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_outer_products_of_blocks(rng):
    """Add AᵀB of 3x6 blocks to a 6x6 block, and nothing beside it."""
    matrix, factors = rng.normal(size=(16, 16)), rng.normal(size=54)
    expected = matrix.copy()
    expected[6:12, 3:9] += factors[:18].reshape(3, 6).T @ factors[36:].reshape(3, 6)

    outer(matrix.reshape(-1), 6 * 16 + 3, 16, factors, 0, 36)

    np.testing.assert_allclose(matrix, expected, rtol=1e-12)


@pytest.mark.parametrize("rank", [5, 8, 21, 24])
def test_factors_solve_the_system(rng, rank):
    """Solve by panels with rows of zeros at the end, and with a row that depends on others left out."""
    size, width = 24, 24 if rank == 24 else 23
    root = np.zeros((size, rank))
    root[:rank] = rng.normal(size=(rank, rank)) + 4.0 * np.eye(rank)
    if rank < width:
        root[rank] = root[:3].sum(axis=0)
    matrix = root @ root.T
    x = np.zeros(size)
    x[:rank] = rng.normal(size=rank)
    factor, pivot, found = np.triu(matrix).reshape(-1), np.zeros(size), matrix @ x

    factorise(factor, size, pivot)
    solve(factor, size, pivot, found)

    assert size % PANEL == 0
    assert (pivot > 0.0).sum() == rank
    np.testing.assert_allclose(found, x, rtol=1e-8, atol=1e-9)
