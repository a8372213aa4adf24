"""Eight boxes against one, or eight against eight, in a few instructions.

A node holds the boxes of its eight children as a struct of arrays, ``box[node, 6, 8]``: lowest x, y, z, then highest
x, y, z, each for eight children. One box is compared with all eight at once, and the answer is a mask of eight
bits; eight against eight give 64. LLVM does not find this by itself (loops of eight are unrolled before they could
become vectors), so that the comparison is written as vector instructions; it becomes AVX where there is AVX and shorter
vectors elsewhere. Likewise the box around vertices: x, y and y, z are loaded together, so that two instructions
per vertex do the work of six. With Numba switched off the same is done one by one. Nodes are float32 or float64.
"""

# mypy: ignore-errors

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from impinge.backend.jit import intrinsic

WIDTH = 8
"""Children per node."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class _Boxes:
    """Code that loads the boxes of nodes and compares them."""

    def __init__(self, context, builder, array_type, array):
        self.builder = builder
        self.scalar = context.get_value_type(array_type.dtype)
        self.vector = ir.VectorType(self.scalar, WIDTH)
        self.data = context.make_array(array_type)(context, builder, array).data
        self.bytes = array_type.dtype.bitwidth // 8

    def rows(self, node):
        """The six vectors of a node."""
        pointer = self.builder.bitcast(self.data, self.vector.as_pointer())
        first = self.builder.mul(node, ir.Constant(_I64, 6))
        return [self._load(pointer, self.builder.add(first, ir.Constant(_I64, k))) for k in range(6)]

    def lane(self, node, lane):
        """The six numbers of one child, each as a vector of equal ones."""
        first = self.builder.mul(node, ir.Constant(_I64, 6 * WIDTH))
        places = [self.builder.add(first, ir.Constant(_I64, k * WIDTH + lane)) for k in range(6)]
        return [self.splat(self._load(self.data, place)) for place in places]

    def _load(self, pointer, index):
        load = self.builder.load(self.builder.gep(pointer, [index]))
        load.align = self.bytes
        return load

    def splat(self, value):
        """A vector of equal numbers."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(undefined, value, ir.Constant(_I32, 0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH))

    def bits(self, rows, box):
        """Bit i of the answer: whether child i of ``rows`` meets ``box``; an integer of 64 bits."""
        hit = None
        for axis in range(3):
            below = self.builder.fcmp_ordered("<=", rows[axis], box[3 + axis])
            above = self.builder.fcmp_ordered(">=", rows[3 + axis], box[axis])
            both = self.builder.and_(below, above)
            hit = both if hit is None else self.builder.and_(hit, both)
        return self.builder.zext(self.builder.bitcast(hit, ir.IntType(WIDTH)), _I64)

    def extreme(self, row, sign):
        """The least (sign "<") or greatest (">") number of a vector, by halves."""
        for width in (4, 2, 1):
            low, high = (ir.Constant(ir.VectorType(_I32, width), [k + i for i in range(width)]) for k in (0, width))
            undefined = ir.Constant(row.type, ir.Undefined)
            a, b = (self.builder.shuffle_vector(row, undefined, half) for half in (low, high))
            row = self.builder.select(self.builder.fcmp_ordered(sign, a, b), a, b)
        return self.builder.extract_element(row, ir.Constant(_I32, 0))


class _Vertices:
    """Code that loads vertices as x, y, y, z and bounds them."""

    def __init__(self, context, builder, array_type, array):
        self.builder = builder
        self.pair = ir.VectorType(ir.DoubleType(), 2)
        self.vector = ir.VectorType(ir.DoubleType(), 4)
        self.data = context.make_array(array_type)(context, builder, array).data

    def load(self, v):
        """Vertex ``v``; two loads that overlap, so that nothing beyond the array is read."""
        first = self.builder.mul(v, ir.Constant(_I64, 3))
        xy, yz = (self._load_pair(self.builder.add(first, ir.Constant(_I64, k))) for k in range(2))
        return self.builder.shuffle_vector(xy, yz, ir.Constant(ir.VectorType(_I32, 4), [0, 1, 2, 3]))

    def _load_pair(self, index):
        pointer = self.builder.bitcast(self.builder.gep(self.data, [index]), self.pair.as_pointer())
        load = self.builder.load(pointer)
        load.align = 8
        return load

    def of_three(self, values):
        """A vector like that of a vertex from three numbers."""
        vector = ir.Constant(self.vector, ir.Undefined)
        for lane, value in enumerate((values[0], values[1], values[1], values[2])):
            vector = self.builder.insert_element(vector, value, ir.Constant(_I32, lane))
        return vector

    def least(self, a, b):
        """The lesser of each lane."""
        return self.builder.select(self.builder.fcmp_ordered("<", a, b), a, b)

    def most(self, a, b):
        """The greater of each lane."""
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def start(self):
        """Where bounds are kept, of no vertices at first."""
        low, high = (cgutils.alloca_once(self.builder, self.vector) for _ in range(2))
        self.builder.store(ir.Constant(self.vector, [float("inf")] * 4), low)
        self.builder.store(ir.Constant(self.vector, [float("-inf")] * 4), high)
        return low, high

    def add(self, ids, index, low, high):
        """Let the bounds hold the vertex ``ids[index]`` too."""
        p = self.load(self.builder.sext(self.builder.load(self.builder.gep(ids, [index])), _I64))
        self.builder.store(self.least(p, self.builder.load(low)), low)
        self.builder.store(self.most(p, self.builder.load(high)), high)

    def as_tuple(self, context, tuple_type, low, high):
        """Lowest and highest x, y, z."""
        lanes = [ir.Constant(_I32, lane) for lane in (0, 1, 3)]
        values = [self.builder.extract_element(bound, lane) for bound in (low, high) for lane in lanes]
        return context.make_tuple(self.builder, tuple_type, values)


if numba.config.DISABLE_JIT:

    def overlap_mask(box, node, lo_x, lo_y, lo_z, hi_x, hi_y, hi_z):
        """Bit i is set if the closed box lo .. hi meets child i of ``node``; touching counts."""
        mask = 0
        for i in range(WIDTH):
            lo, hi = box[node, :3, i], box[node, 3:, i]
            hit = (
                lo[0] <= hi_x and hi[0] >= lo_x and lo[1] <= hi_y and hi[1] >= lo_y and lo[2] <= hi_z and hi[2] >= lo_z
            )
            mask |= int(hit) << i
        return np.uint64(mask)

    def overlap_square(box_a, node_a, box_b, node_b):
        """Bit 8 i + j is set if child i of ``node_a`` meets child j of ``node_b``; touching counts."""
        mask = 0
        for i in range(WIDTH):
            mask |= int(overlap_mask(box_b, node_b, *box_a[node_a, :, i])) << WIDTH * i
        return np.uint64(mask)

    def node_box(box, node):
        """Lowest and highest x, y, z of all children of ``node``."""
        return (*box[node, :3].min(axis=1), *box[node, 3:].max(axis=1))

    def triangle_box(x, i, j, k, origin_x, origin_y, origin_z):
        """Lowest and highest x, y, z of three vertices, counted from an origin, as float32."""
        corners, origin = x[[i, j, k]], np.array([origin_x, origin_y, origin_z])
        with np.errstate(over="ignore"):
            return (
                *(corners.min(axis=0) - origin).astype(np.float32),
                *(corners.max(axis=0) - origin).astype(np.float32),
            )

    def vertices_box(x, vertex, start, end):
        """Lowest and highest x, y, z of the vertices listed in ``vertex[start:end]``; inf, -inf if there are none."""
        if start == end:
            return np.inf, np.inf, np.inf, -np.inf, -np.inf, -np.inf
        listed = x[vertex[start:end]]
        return (*listed.min(axis=0), *listed.max(axis=0))

    def triangles_box(x, faces, ids, start, end):
        """Lowest and highest x, y, z of the triangles listed in ``ids[start:end]``; inf, -inf if there are none."""
        corner = faces[ids[start:end]].reshape(-1)
        return vertices_box(x, corner, 0, len(corner))

    def lowest_bit(mask):
        """Position of the lowest bit that is set."""
        return (int(mask) & -int(mask)).bit_length() - 1

else:
    # Intrinsics are emitted in place. Wrapped in a function they would be called, with every field of every array
    # pushed on the stack, which takes longer than the comparison.

    @intrinsic
    def overlap_mask(_typing_context, box, _node, _lo_x, _lo_y, _lo_z, _hi_x, _hi_y, _hi_z):
        """Bit i is set if the closed box lo .. hi meets child i of ``node``; touching counts."""
        signature = types.uint64(box, types.int64, *[box.dtype] * 6)

        def codegen(context, builder, signature, args):
            boxes = _Boxes(context, builder, signature.args[0], args[0])
            return boxes.bits(boxes.rows(args[1]), [boxes.splat(value) for value in args[2:]])

        return signature, codegen

    @intrinsic
    def overlap_square(_typing_context, box_a, _node_a, box_b, _node_b):
        """Bit 8 i + j is set if child i of ``node_a`` meets child j of ``node_b``; touching counts."""
        signature = types.uint64(box_a, types.int64, box_b, types.int64)

        def codegen(context, builder, signature, args):
            of_a = _Boxes(context, builder, signature.args[0], args[0])
            of_b = _Boxes(context, builder, signature.args[2], args[2])
            rows = of_b.rows(args[3])
            found = None
            for lane in range(WIDTH):
                bits = of_b.bits(rows, of_a.lane(args[1], lane))
                shifted = builder.shl(bits, ir.Constant(_I64, WIDTH * lane))
                found = shifted if found is None else builder.or_(found, shifted)
            return found

        return signature, codegen

    @intrinsic
    def node_box(_typing_context, box, _node):
        """Lowest and highest x, y, z of all children of ``node``."""
        signature = types.UniTuple(box.dtype, 6)(box, types.int64)

        def codegen(context, builder, signature, args):
            boxes = _Boxes(context, builder, signature.args[0], args[0])
            values = [boxes.extreme(row, "<" if k < 3 else ">") for k, row in enumerate(boxes.rows(args[1]))]
            return context.make_tuple(builder, signature.return_type, values)

        return signature, codegen

    @intrinsic
    def triangle_box(_typing_context, x, _i, _j, _k, _origin_x, _origin_y, _origin_z):
        """Lowest and highest x, y, z of three vertices, counted from an origin, as float32."""
        signature = types.UniTuple(types.float32, 6)(x, *[types.int64] * 3, *[types.float64] * 3)

        def codegen(context, builder, signature, args):
            vertices = _Vertices(context, builder, signature.args[0], args[0])
            p, q, r = (vertices.load(v) for v in args[1:4])
            low, high = vertices.least(vertices.least(p, q), r), vertices.most(vertices.most(p, q), r)
            origin = vertices.of_three(args[4:])
            floats = ir.VectorType(ir.FloatType(), 4)
            low, high = (builder.fptrunc(builder.fsub(bound, origin), floats) for bound in (low, high))
            return vertices.as_tuple(context, signature.return_type, low, high)

        return signature, codegen

    @intrinsic
    def vertices_box(_typing_context, x, vertex, _start, _end):
        """Lowest and highest x, y, z of the vertices listed in ``vertex[start:end]``; inf, -inf if there are none."""
        signature = types.UniTuple(types.float64, 6)(x, vertex, types.int64, types.int64)

        def codegen(context, builder, signature, args):
            vertices = _Vertices(context, builder, signature.args[0], args[0])
            ids = context.make_array(signature.args[1])(context, builder, args[1]).data
            low, high = vertices.start()
            with cgutils.for_range_slice(builder, args[2], args[3], ir.Constant(_I64, 1), intp=_I64) as (index, _):
                vertices.add(ids, index, low, high)
            return vertices.as_tuple(context, signature.return_type, builder.load(low), builder.load(high))

        return signature, codegen

    @intrinsic
    def triangles_box(_typing_context, x, faces, ids, _start, _end):
        """Lowest and highest x, y, z of the triangles listed in ``ids[start:end]``; inf, -inf if there are none."""
        signature = types.UniTuple(types.float64, 6)(x, faces, ids, types.int64, types.int64)

        def codegen(context, builder, signature, args):
            vertices = _Vertices(context, builder, signature.args[0], args[0])
            corner, ids = (context.make_array(signature.args[k])(context, builder, args[k]).data for k in (1, 2))
            low, high = vertices.start()
            with cgutils.for_range_slice(builder, args[3], args[4], ir.Constant(_I64, 1), intp=_I64) as (index, _):
                first = builder.mul(builder.sext(builder.load(builder.gep(ids, [index])), _I64), ir.Constant(_I64, 3))
                for k in range(3):
                    vertices.add(corner, builder.add(first, ir.Constant(_I64, k)), low, high)
            return vertices.as_tuple(context, signature.return_type, builder.load(low), builder.load(high))

        return signature, codegen

    @intrinsic
    def lowest_bit(_typing_context, _mask):
        """Position of the lowest bit that is set, of an unsigned integer of 64 bits."""

        def codegen(_context, builder, _signature, args):
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), codegen
