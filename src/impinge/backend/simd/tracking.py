"""Four spheres at a time that follow vertices, and four points at a time against a centre.

Spheres come in blocks of eight, ``sphere[block, 4, 8]`` (x, y, z, radius), and each half of a block is found at once.
The vertices that a sphere follows, its controls, stand in rows: ``control[row, 8]`` has one vertex of each sphere of
a block, ``coefficient[row, k, 8]`` its numbers, singles or doubles, and a block has rows ``start .. stop``. Sums are
taken around the vertex in the first row. A sphere that is ``alone`` in its block has its controls in all four lanes of
the first half: its sums are those of the lanes together. ``share[block, k, 8]`` holds what a sphere has once.

Products and sums are rounded one by one, in the order of rows, so that all machines find the same spheres.
"""

# mypy: ignore-errors

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from impinge.backend.jit import intrinsic

HALF = 4
"""Spheres, or points, that are worked on at once."""
LEADING = 8
"""Rows with weights, of spheres that stay around very many controls."""
SMALLEST = 1e-290
"""Sizes below this one count as this: its inverse is a number."""
ROUNDING = 64 * 2.220446049250313e-16
"""Radii grow by this share, and by this times the largest number that they were computed from."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(ir.DoubleType(), HALF)
_SINGLES = ir.VectorType(ir.FloatType(), HALF)


class _Four:
    """Four doubles, with operators."""

    def __init__(self, builder, value):
        self.builder, self.value = builder, value

    def _with(self, value):
        return _Four(self.builder, value)

    def __add__(self, other):
        return self._with(self.builder.fadd(self.value, other.value))

    def __sub__(self, other):
        return self._with(self.builder.fsub(self.value, other.value))

    def __mul__(self, other):
        return self._with(self.builder.fmul(self.value, other.value))

    def __truediv__(self, other):
        return self._with(self.builder.fdiv(self.value, other.value))

    def sqrt(self):
        """The root of each."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.sqrt.v{HALF}f64")
        return self._with(self.builder.call(function, [self.value]))

    def most(self, other):
        """The greater of each."""
        return self._with(self.builder.select(self._is_above(other), self.value, other.value))

    def if_positive(self, then, otherwise):
        """Lanes of ``then`` where this is above 0, else of ``otherwise``."""
        zero = _constant(self.builder, 0.0)
        return self._with(self.builder.select(self._is_above(zero), then.value, otherwise.value))

    def _is_above(self, other):
        return self.builder.fcmp_ordered(">", self.value, other.value)

    def lane(self, k):
        """One of the four."""
        return self.builder.extract_element(self.value, ir.Constant(_I32, k))

    def folded(self, function):
        """All lanes made one by a function of two, in every lane."""
        lanes = [_splat(self.builder, self.lane(k)) for k in range(HALF)]
        total = lanes[0]
        for lane in lanes[1:]:
            total = function(total, lane)
        return total


def _splat(builder, value):
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return _Four(builder, builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, HALF), [0] * HALF)))


def _constant(builder, value):
    return _Four(builder, ir.Constant(_VECTOR, [value] * HALF))


class _Sum:
    """Four doubles that a loop changes."""

    def __init__(self, builder, value=0.0):
        self.builder = builder
        self.place = cgutils.alloca_once(builder, _VECTOR)
        self.set(_constant(builder, value))

    def get(self):
        """What it is now."""
        return _Four(self.builder, self.builder.load(self.place))

    def set(self, value):
        """Let it be something else."""
        self.builder.store(value.value, self.place)

    def add(self, value):
        """Let it be more."""
        self.set(self.get() + value)


class _Array:
    """The numbers of an array, doubles or singles, four at a time."""

    def __init__(self, context, builder, array_type, array):
        self.builder = builder
        made = context.make_array(array_type)(context, builder, array)
        self.data, self.is_single = made.data, array_type.dtype == types.float32
        self.shape = cgutils.unpack_tuple(builder, made.shape) if array_type.ndim > 1 else None

    def at(self, index, kind=_VECTOR):
        """Where four numbers stand that begin at ``index``."""
        return self.builder.bitcast(self.builder.gep(self.data, [index]), kind.as_pointer())

    def load(self, index):
        """Four numbers from ``index`` on."""
        if self.is_single:
            load = self.builder.load(self.at(index, _SINGLES))
            load.align = 4
            return _Four(self.builder, self.builder.fpext(load, _VECTOR))
        load = self.builder.load(self.at(index))
        load.align = 8
        return _Four(self.builder, load)

    def store(self, index, value):
        """Write four doubles from ``index`` on."""
        self.builder.store(value.value, self.at(index), align=8)


def _gather(builder, x, ids, index):
    """Coordinates of the four vertices that ``ids`` names from ``index`` on; x and y of each are loaded at once."""
    pair = ir.VectorType(ir.DoubleType(), 2)
    xy, z = [], ir.Constant(_VECTOR, ir.Undefined)
    for lane in range(HALF):
        number = builder.load(builder.gep(ids.data, [builder.add(index, ir.Constant(_I64, lane))]))
        first = builder.mul(builder.sext(number, _I64), ir.Constant(_I64, 3))
        load = builder.load(builder.bitcast(builder.gep(x.data, [first]), pair.as_pointer()))
        load.align = 8
        xy.append(load)
        third = builder.load(builder.gep(x.data, [builder.add(first, ir.Constant(_I64, 2))]))
        z = builder.insert_element(z, third, ir.Constant(_I32, lane))
    even, odd = (_shuffle(builder, xy[k], xy[k + 2], [0, 1, 2, 3]) for k in range(2))
    return [_Four(builder, _shuffle(builder, even, odd, lanes)) for lanes in ([0, 4, 2, 6], [1, 5, 3, 7])] + [
        _Four(builder, z)
    ]


def _shuffle(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, HALF), lanes))


class _Block:
    """Half a block of spheres and its rows of controls."""

    def __init__(self, context, builder, signature, args):
        self.builder = builder
        kinds = signature.args
        self.sphere, self.x, self.control, self.coefficient, self.share = (
            _Array(context, builder, kinds[k], args[k]) for k in (0, 3, 4, 5, 6)
        )
        self.block, self.start, self.stop, self.alone = args[1], args[7], args[8], args[9]
        self.first_lane = builder.mul(args[2], ir.Constant(_I64, HALF))
        self.origin = self._vertices(self.start)

    def rows(self, most=None):
        """A loop over the rows, or over some from the first on."""
        stop = self.stop
        if most is not None:
            end = self.builder.add(self.start, ir.Constant(_I64, most))
            stop = self.builder.select(self.builder.icmp_signed("<", end, stop), end, stop)
        return cgutils.for_range_slice(self.builder, self.start, stop, ir.Constant(_I64, 1), intp=_I64)

    def _vertices(self, row):
        index = self.builder.add(self.builder.mul(row, ir.Constant(_I64, 2 * HALF)), self.first_lane)
        return _gather(self.builder, self.x, self.control, index)

    def controls(self, row):
        """Controls of a row, counted from the first row's."""
        return [q - o for q, o in zip(self._vertices(row), self.origin)]

    def _number(self, array, row, k):
        index = self.builder.add(self.builder.mul(row, array.shape[1]), ir.Constant(_I64, k))
        return self.builder.add(self.builder.mul(index, ir.Constant(_I64, 2 * HALF)), self.first_lane)

    def weight(self, row, k):
        """Column ``k`` of the coefficients of a row."""
        return self.coefficient.load(self._number(self.coefficient, row, k))

    def own(self, k):
        """Column ``k`` of what spheres have once."""
        return self.share.load(self._number(self.share, self.block, k))

    def weighted_sums(self, columns, most=None):
        """For each column the sum of weight times control, three numbers each."""
        sums = [_Sum(self.builder) for _ in range(3 * columns)]
        with self.rows(most) as (row, _):
            q = self.controls(row)
            for k in range(columns):
                weight = self.weight(row, k)
                for axis in range(3):
                    sums[3 * k + axis].add(weight * q[axis])
        with self.builder.if_then(self.alone):
            for each in sums:
                each.set(each.get().folded(lambda a, b: a + b))
        return [each.get() for each in sums]

    def put_centre(self, centre):
        """Write centres that are counted from the first row's controls."""
        for axis in range(3):
            self.sphere.store(self._number(self.sphere, self.block, axis), centre[axis] + self.origin[axis])

    def put_radius(self, radius):
        """Write radii."""
        self.sphere.store(self._number(self.sphere, self.block, 3), radius)

    def put_rounded(self, radius, reach):
        """Write radii, larger by what sums of numbers up to ``reach`` may round."""
        rounding = _splat(self.builder, reach) * _constant(self.builder, ROUNDING)
        self.put_radius(radius * _constant(self.builder, 1.0 + ROUNDING) + rounding)


def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _stretch(columns):
    """An upper bound of the largest singular value of matrices given by columns; see ``stretch_of``."""
    builder = columns[0][0].builder
    size, columns = _with_unit_size(columns)
    xx, yy, zz = (_dot(column, column) for column in columns)
    xy, xz, yz = (_dot(columns[i], columns[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    mean = (xx + yy + zz) / _constant(builder, 3.0)
    apart = [value - mean for value in (xx, yy, zz)]
    square = _dot(apart, apart) + _constant(builder, 2.0) * _dot((xy, xz, yz), (xy, xz, yz))
    return size * (mean + _constant(builder, 2.0) * (square / _constant(builder, 6.0)).sqrt()).sqrt()


def _with_unit_size(vectors):
    """The largest coordinate of some vectors, and these divided by it, so that squares neither over- nor underflow."""
    builder = vectors[0][0].builder
    size = _constant(builder, SMALLEST)
    for vector in vectors:
        for value in vector:
            size = size.most(value).most(_constant(builder, 0.0) - value)
    inverse = _constant(builder, 1.0) / size
    return size, [[inverse * value for value in vector] for vector in vectors]


def _follow_affine(block, reach, with_residuals):
    """Emit what ``follow_affine`` and ``follow_bounded`` do."""
    builder = block.builder
    sums = block.weighted_sums(4)
    centre, columns = sums[:3], [sums[3:6], sums[6:9], sums[9:12]]
    unit = block.own(0)
    radius = block.own(3) * _stretch([[unit * value for value in column] for column in columns])
    if with_residuals:
        rest = _Sum(builder)
        with block.rows() as (row, _):
            q, e = block.controls(row), [block.weight(row, 4 + k) for k in range(3)]
            u = [
                q[i] - centre[i] - (columns[0][i] * e[0] + columns[1][i] * e[1] + columns[2][i] * e[2])
                for i in range(3)
            ]
            rest.add(block.weight(row, 7) * _dot(u, u).sqrt())
        with builder.if_then(block.alone):
            rest.set(rest.get().folded(lambda a, b: a + b))
        radius += rest.get()
    block.put_centre(centre)
    block.put_rounded(radius, reach)


def stretch_of(f):
    """An upper bound of the largest singular value of 3x3 matrices, exact where the two others are equal.

    With m the mean of the eigenvalues of C = FᵀF and p² = |C - m I|² / 6, they are m + 2 p cos(t) for three t.
    """
    size = np.maximum(np.abs(f).max(axis=(-2, -1)), SMALLEST)
    f = f / size[..., None, None]
    c = np.swapaxes(f, -1, -2) @ f
    mean = np.trace(c, axis1=-2, axis2=-1) / 3.0
    square = ((c - mean[..., None, None] * np.eye(3)) ** 2).sum(axis=(-2, -1))
    return size * np.sqrt(mean + 2.0 * np.sqrt(square / 6.0))


_BLOCK = (types.int64, types.int64, types.int64, types.int64, types.boolean)


def _signature(sphere, x, control, coefficient, share, *more):
    block, half, start, stop, alone = _BLOCK
    return types.void(sphere, block, half, x, control, coefficient, share, start, stop, alone, *more)


if numba.config.DISABLE_JIT:

    def _sums(half, x, control, coefficient, start, stop, alone, columns):
        """Controls from the first row's, that row's, numbers of all, and weighted sums, shape (columns, 4, 3)."""
        lanes = slice(HALF * half, HALF * half + HALF)
        q = x[control[start:stop, lanes]]
        origin, numbers = q[0].copy(), coefficient[start:stop, :, lanes]
        q = q - origin
        sums = np.einsum("rkl,rla->kla", numbers[:, :columns], q)
        if alone:
            sums = np.repeat(sums.sum(axis=1, keepdims=True), HALF, axis=1)
        return q, origin, numbers, sums

    def _put(sphere, block, half, centre, radius):
        lanes = slice(HALF * half, HALF * half + HALF)
        sphere[block, :3, lanes] = centre.T
        sphere[block, 3, lanes] = radius

    def follow_as_published(sphere, block, half, x, control, coefficient, share, start, stop, alone):
        """Put c' = s + Σ w q' and r' = max sqrt(v) |q' - c'|, r if that is 0; columns w, v; share s, r."""
        own = share[block, :, HALF * half : HALF * half + HALF]
        q, origin, numbers, sums = _sums(half, x, control, coefficient, start, stop, alone, 1)
        centre = sums[0] + own[:3].T
        ratio = (((q - centre) ** 2).sum(axis=2) * numbers[:, 1]).max(axis=0)
        if alone:
            ratio[:] = ratio.max()
        _put(sphere, block, half, centre + origin, np.where(ratio > 0.0, np.sqrt(ratio), own[3]))

    def follow_affine(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
        """Put c' = Σ w q' and r' = |t F| r with F = Σ q' gᵀ; columns w, g (3); share: t, 2 unused, r."""
        own = share[block, :, HALF * half : HALF * half + HALF]
        _, origin, _, sums = _sums(half, x, control, coefficient, start, stop, alone, 4)
        radius = own[3] * stretch_of(own[0][:, None, None] * sums[1:].transpose(1, 2, 0))
        _put(sphere, block, half, sums[0] + origin, radius * (1.0 + ROUNDING) + ROUNDING * reach)

    def follow_bounded(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
        """As ``follow_affine``, and r' grows by Σ s |q' - c' - F e|; columns w, g (3), e (3), s."""
        own = share[block, :, HALF * half : HALF * half + HALF]
        q, origin, numbers, sums = _sums(half, x, control, coefficient, start, stop, alone, 4)
        f = sums[1:].transpose(1, 2, 0)
        u = q - sums[0] - np.einsum("lak,rkl->rla", f, numbers[:, 4:7])
        rest = (numbers[:, 7] * np.sqrt((u * u).sum(axis=2))).sum(axis=0)
        if alone:
            rest[:] = rest.sum()
        radius = own[3] * stretch_of(own[0][:, None, None] * f) + rest
        _put(sphere, block, half, sums[0] + origin, radius * (1.0 + ROUNDING) + ROUNDING * reach)

    def follow_near(sphere, block, half, x, control, coefficient, share, start, stop, alone, reach):
        """Put c' = Σ w q' and r' = s max |q' - c'| + t; column w, of the leading rows; share: 2 unused, t, s."""
        own = share[block, :, HALF * half : HALF * half + HALF]
        _, origin, _, sums = _sums(half, x, control, coefficient, start, min(start + LEADING, stop), alone, 1)
        q = x[control[start:stop, HALF * half : HALF * half + HALF]] - origin
        square = ((q - sums[0]) ** 2).sum(axis=2).max(axis=0)
        if alone:
            square[:] = square.max()
        radius = own[3] * np.sqrt(square) + own[2]
        _put(sphere, block, half, sums[0] + origin, radius * (1.0 + ROUNDING) + ROUNDING * reach)

    def follow_patch(sphere, block, half, x, control, coefficient, share, start, stop, alone):
        """Put c' = Σ w q' + s n, n the unit normal of Σ u q' and Σ v q'; columns w, u, v; share s."""
        lanes = slice(HALF * half, HALF * half + HALF)
        _, origin, _, sums = _sums(half, x, control, coefficient, start, stop, alone, 3)
        size = np.maximum(np.abs(sums[1:]).max(axis=(0, 2)), SMALLEST)[:, None]
        normal = np.cross(sums[1] / size, sums[2] / size)
        length = np.sqrt((normal * normal).sum(axis=1))
        scale = np.where(length > 0.0, share[block, 0, lanes] / np.where(length > 0.0, length, 1.0), 0.0)
        sphere[block, :3, lanes] = (sums[0] + scale[:, None] * normal + origin).T

    def farthest_square(x, ids, start, stop, cx, cy, cz):
        """The square of the largest distance of x[ids[start:stop]] from a point; as many as four times a number."""
        return max((sum((p - c) ** 2 for p, c in zip(x[i], (cx, cy, cz))) for i in ids[start:stop]), default=0.0)

else:

    @intrinsic
    def follow_as_published(
        _typing_context, sphere, _block, _half, x, control, coefficient, share, _start, _stop, _alone
    ):
        """Put c' = s + Σ w q' and r' = max sqrt(v) |q' - c'|, r if that is 0; columns w, v; share s, r."""

        def codegen(context, builder, signature, args):
            block = _Block(context, builder, signature, args)
            centre = [total + block.own(axis) for axis, total in enumerate(block.weighted_sums(1))]
            ratio = _Sum(builder)
            with block.rows() as (row, _):
                away = [q - c for q, c in zip(block.controls(row), centre)]
                ratio.set((_dot(away, away) * block.weight(row, 1)).most(ratio.get()))
            with builder.if_then(block.alone):
                ratio.set(ratio.get().folded(lambda a, b: a.most(b)))
            grown = ratio.get()
            block.put_centre(centre)
            block.put_radius(grown.if_positive(grown.sqrt(), block.own(3)))
            return context.get_dummy_value()

        return _signature(sphere, x, control, coefficient, share), codegen

    @intrinsic
    def follow_affine(
        _typing_context, sphere, _block, _half, x, control, coefficient, share, _start, _stop, _alone, _reach
    ):
        """Put c' = Σ w q' and r' = |t F| r with F = Σ q' gᵀ; columns w, g (3); share: t, 2 unused, r."""

        def codegen(context, builder, signature, args):
            _follow_affine(_Block(context, builder, signature, args), args[10], with_residuals=False)
            return context.get_dummy_value()

        return _signature(sphere, x, control, coefficient, share, types.float64), codegen

    @intrinsic
    def follow_bounded(
        _typing_context, sphere, _block, _half, x, control, coefficient, share, _start, _stop, _alone, _reach
    ):
        """As ``follow_affine``, and r' grows by Σ s |q' - c' - F e|; columns w, g (3), e (3), s."""

        def codegen(context, builder, signature, args):
            _follow_affine(_Block(context, builder, signature, args), args[10], with_residuals=True)
            return context.get_dummy_value()

        return _signature(sphere, x, control, coefficient, share, types.float64), codegen

    @intrinsic
    def follow_near(
        _typing_context, sphere, _block, _half, x, control, coefficient, share, _start, _stop, _alone, _reach
    ):
        """Put c' = Σ w q' and r' = s max |q' - c'| + t; column w, of the leading rows; share: 2 unused, t, s."""

        def codegen(context, builder, signature, args):
            block = _Block(context, builder, signature, args)
            centre = block.weighted_sums(1, LEADING)
            square = _Sum(builder)
            with block.rows() as (row, _):
                away = [q - c for q, c in zip(block.controls(row), centre)]
                square.set(_dot(away, away).most(square.get()))
            with builder.if_then(block.alone):
                square.set(square.get().folded(lambda a, b: a.most(b)))
            block.put_centre(centre)
            block.put_rounded(block.own(3) * square.get().sqrt() + block.own(2), args[10])
            return context.get_dummy_value()

        return _signature(sphere, x, control, coefficient, share, types.float64), codegen

    @intrinsic
    def follow_patch(_typing_context, sphere, _block, _half, x, control, coefficient, share, _start, _stop, _alone):
        """Put c' = Σ w q' + s n, n the unit normal of Σ u q' and Σ v q'; columns w, u, v; share s."""

        def codegen(context, builder, signature, args):
            block = _Block(context, builder, signature, args)
            sums = block.weighted_sums(3)
            _, (u, v) = _with_unit_size([sums[3:6], sums[6:9]])
            normal = [u[i] * v[j] - u[j] * v[i] for i, j in ((1, 2), (2, 0), (0, 1))]
            length = _dot(normal, normal).sqrt()
            scale = length.if_positive(block.own(0) / length, _constant(builder, 0.0))
            block.put_centre([c + scale * n for c, n in zip(sums[:3], normal)])
            return context.get_dummy_value()

        return _signature(sphere, x, control, coefficient, share), codegen

    @intrinsic
    def farthest_square(_typing_context, x, ids, _start, _stop, _cx, _cy, _cz):
        """The square of the largest distance of x[ids[start:stop]] from a point; as many as four times a number."""
        signature = types.float64(x, ids, types.int64, types.int64, *[types.float64] * 3)

        def codegen(context, builder, signature, args):
            vertices, numbers = (_Array(context, builder, signature.args[k], args[k]) for k in range(2))
            centre = [_splat(builder, value) for value in args[4:]]
            square = _Sum(builder)
            with cgutils.for_range_slice(builder, args[2], args[3], ir.Constant(_I64, HALF), intp=_I64) as (index, _):
                away = [p - c for p, c in zip(_gather(builder, vertices, numbers, index), centre)]
                square.set(_dot(away, away).most(square.get()))
            return square.get().folded(lambda a, b: a.most(b)).lane(0)

        return signature, codegen
