"""Vector code written once, as LLVM instructions or as NumPy operations.

LLVM does not vectorise loops over eight children: it unrolls them first. ``vectorized`` turns a Python function into an
intrinsic whose vector instructions are written by hand. They become AVX where available and shorter vectors elsewhere.
Under ``NUMBA_DISABLE_JIT`` the same function computes with NumPy arrays.

The function gets a machine ``m`` and its arguments. Scalars and vectors have operators; the methods of ``m`` are the
rest: ``load``, ``store``, ``splat``, ``select``, ``bits``, ... Indices count elements of flat arrays. Products and sums
are rounded one by one, in the order written.

Intrinsics are emitted in place. As compiled functions they would be called, with every field of every array pushed on
the stack, which takes longer than the comparison of eight boxes.
"""

# mypy: ignore-errors

from __future__ import annotations

import functools
import inspect
import operator

import numba
import numpy as np
from llvmlite import ir
from numba import types

from impinge.backend.jit import intrinsic

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_TYPES = {np.bool_: _I1, np.int32: _I32, np.int64: _I64, np.float32: ir.FloatType(), np.float64: ir.DoubleType()}


class _Value:
    """A scalar or a vector of compiled code."""

    def __init__(self, builder, value):
        self.builder, self.value = builder, value
        self.element = getattr(value.type, "element", value.type)
        self.is_float = not isinstance(self.element, ir.IntType)

    def _other(self, other):
        if isinstance(other, _Value):
            return other.value
        count = getattr(self.value.type, "count", None)
        return ir.Constant(self.value.type, other if count is None else [other] * count)

    def _binary(self, name, other):
        instruction = getattr(self.builder, f"f{name}" if self.is_float else name)
        return _Value(self.builder, instruction(self.value, self._other(other)))

    def _bitwise(self, name, other):
        return _Value(self.builder, getattr(self.builder, name)(self.value, self._other(other)))

    def _compare(self, sign, other):
        compare = self.builder.fcmp_ordered if self.is_float else self.builder.icmp_signed
        return _Value(self.builder, compare(sign, self.value, self._other(other)))

    __add__ = __radd__ = functools.partialmethod(_binary, "add")
    __mul__ = __rmul__ = functools.partialmethod(_binary, "mul")
    __sub__ = functools.partialmethod(_binary, "sub")
    __truediv__ = functools.partialmethod(_binary, "div")
    __and__ = functools.partialmethod(_bitwise, "and_")
    __or__ = functools.partialmethod(_bitwise, "or_")
    __lshift__ = functools.partialmethod(_bitwise, "shl")
    __lt__ = functools.partialmethod(_compare, "<")
    __le__ = functools.partialmethod(_compare, "<=")
    __gt__ = functools.partialmethod(_compare, ">")
    __ge__ = functools.partialmethod(_compare, ">=")
    __eq__ = functools.partialmethod(_compare, "==")
    __hash__ = None

    def __neg__(self):
        return _Value(self.builder, self.builder.fneg(self.value))


class _Array:
    """An array argument of compiled code."""

    def __init__(self, context, builder, array_type, array):
        made = context.make_array(array_type)(context, builder, array)
        self.data, self.itemsize = made.data, array_type.dtype.bitwidth // 8
        self.dtype = np.dtype(str(array_type.dtype)).type
        self.shape = [_Value(builder, builder.extract_value(made.shape, k)) for k in range(array_type.ndim)]


class _Variable:
    """A vector that loops change."""

    def __init__(self, builder, value):
        self._builder = builder
        with builder.goto_entry_block():
            self._place = builder.alloca(value.value.type)
        self.value = value

    @property
    def value(self):
        return _Value(self._builder, self._builder.load(self._place))

    @value.setter
    def value(self, value):
        self._builder.store(value.value, self._place)


class _Machine:
    """Operations that both machines build from others."""

    def most(self, a, b):
        """The greater of each lane."""
        return self.select(a > b, a, b)

    def least(self, a, b):
        """The lesser of each lane."""
        return self.select(a < b, a, b)

    def fold(self, a, width, function):
        """Reduce all lanes by a function of two vectors, in order; the result in every lane."""
        return functools.reduce(function, [self.splat(self.lane(a, k), width, np.float64) for k in range(width)])


class _Llvm(_Machine):
    """Emits LLVM instructions."""

    def __init__(self, context, builder):
        self.context, self.builder = context, builder

    def _of(self, value):
        return _Value(self.builder, value)

    def _pointer(self, array, index, kind):
        index = index.value if isinstance(index, _Value) else ir.Constant(_I64, index)
        return self.builder.bitcast(self.builder.gep(array.data, [index]), kind.as_pointer())

    def load(self, array, index, width=None):
        """``width`` elements from ``index`` on, or one as a scalar."""
        element = array.data.type.pointee
        kind = element if width is None else ir.VectorType(element, width)
        load = self.builder.load(self._pointer(array, index, kind))
        load.align = array.itemsize
        return self._of(load)

    def load_index(self, array, index):
        """An int32 element as an index."""
        return self._of(self.builder.sext(self.load(array, index).value, _I64))

    def store(self, array, index, value):
        """Write a vector from ``index`` on, or one number."""
        self.builder.store(value.value, self._pointer(array, index, value.value.type), align=array.itemsize)

    def constant(self, values, dtype):
        """A vector of constants."""
        return self._of(ir.Constant(ir.VectorType(_TYPES[dtype], len(values)), list(values)))

    def splat(self, value, width, dtype):
        """A vector of equal elements."""
        if not isinstance(value, _Value):
            return self.constant([value] * width, dtype)
        undefined = ir.Constant(ir.VectorType(value.value.type, width), ir.Undefined)
        one = self.builder.insert_element(undefined, value.value, ir.Constant(_I32, 0))
        return self._of(
            self.builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, width), [0] * width))
        )

    def gather(self, values):
        """A vector of scalars."""
        vector = ir.Constant(ir.VectorType(values[0].value.type, len(values)), ir.Undefined)
        for k, value in enumerate(values):
            vector = self.builder.insert_element(vector, value.value, ir.Constant(_I32, k))
        return self._of(vector)

    def shuffle(self, a, b, lanes):
        """Chosen lanes of ``a``, counted on in ``b``."""
        chosen = ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)
        return self._of(self.builder.shuffle_vector(a.value, b.value, chosen))

    def lane(self, a, k):
        """One lane."""
        return self._of(self.builder.extract_element(a.value, ir.Constant(_I32, k)))

    def select(self, condition, a, b):
        """Lanes of ``a`` where the condition holds, else of ``b``."""
        return self._of(self.builder.select(condition.value, a.value, b.value))

    def sqrt(self, a):
        """The square root of each float64 lane."""
        name = f"llvm.sqrt.v{a.value.type.count}f64"
        function = self.builder.module.globals.get(name)
        if function is None:
            function = ir.Function(self.builder.module, ir.FunctionType(a.value.type, [a.value.type]), name)
        return self._of(self.builder.call(function, [a.value]))

    def cast(self, a, dtype):
        """Float32 lanes as float64, or the reverse."""
        kind = ir.VectorType(_TYPES[dtype], a.value.type.count)
        convert = self.builder.fpext if dtype is np.float64 else self.builder.fptrunc
        return self._of(convert(a.value, kind)) if a.value.type != kind else a

    def bitcast(self, a, dtype):
        """The same bits as another type."""
        return self._of(self.builder.bitcast(a.value, ir.VectorType(_TYPES[dtype], a.value.type.count)))

    def bits(self, condition):
        """Truth values as bits of a uint64, lane 0 lowest."""
        packed = self.builder.bitcast(condition.value, ir.IntType(condition.value.type.count))
        return self._of(self.builder.zext(packed, _I64))

    def variable(self, value):
        """A vector that loops change, through its attribute ``value``."""
        return _Variable(self.builder, value)

    def loop(self, start, stop, step=1):
        """Emit a loop; the body of the Python loop runs once."""
        index = self.variable(start)
        condition, body, end = (self.builder.append_basic_block(name) for name in ("condition", "body", "end"))
        self.builder.branch(condition)
        self.builder.position_at_end(condition)
        at = index.value
        self.builder.cbranch((at < stop).value, body, end)
        self.builder.position_at_end(body)
        yield at
        index.value = at + step
        self.builder.branch(condition)
        self.builder.position_at_end(end)

    def when(self, condition):
        """Emit a branch; the body of the Python loop runs once."""
        with self.builder.if_then(condition.value):
            yield


class _NumPy(_Machine):
    """The same operations on NumPy arrays; see ``_Llvm``."""

    def load(self, array, index, width=None):
        flat = array.reshape(-1)
        return flat[index] if width is None else flat[index : index + width].copy()

    def load_index(self, array, index):
        return int(array.reshape(-1)[index])

    def store(self, array, index, value):
        array.reshape(-1)[index : index + np.size(value)] = value

    def constant(self, values, dtype):
        return np.array(values, dtype=dtype)

    def splat(self, value, width, dtype):
        return np.full(width, value, dtype=dtype)

    def gather(self, values):
        return np.array(values)

    def shuffle(self, a, b, lanes):
        return np.concatenate([a, b])[lanes]

    def lane(self, a, k):
        return a[k]

    def select(self, condition, a, b):
        return np.where(condition, a, b)

    def sqrt(self, a):
        return np.sqrt(a)

    def cast(self, a, dtype):
        return a.astype(dtype)

    def bitcast(self, a, dtype):
        return a.view(dtype)

    def bits(self, condition):
        return int(np.packbits(condition, bitorder="little")[0])

    def variable(self, value):
        return type("Variable", (), {"value": value})()

    def loop(self, start, stop, step=1):
        yield from range(start, stop, step)

    def when(self, condition):
        if condition:
            yield


def vectorized(signature):
    """Make a function (m, *arguments) an intrinsic; ``signature`` maps argument types to a Numba signature."""

    def decorate(function):
        def interpreted(*args):
            """Compute with NumPy."""
            with np.errstate(all="ignore"):
                result = function(_NumPy(), *(int(arg) if isinstance(arg, np.integer) else arg for arg in args))
            if isinstance(result, tuple):
                return tuple(map(_unsigned, result))
            return _unsigned(result)

        def typing(_context, *args):
            return signature(*args), emit

        def emit(context, builder, signature, args):
            wrapped = (
                _Array(context, builder, kind, arg) if isinstance(kind, types.Array) else _Value(builder, arg)
                for kind, arg in zip(signature.args, args)
            )
            result = function(_Llvm(context, builder), *wrapped)
            if isinstance(result, tuple):
                return context.make_tuple(builder, signature.return_type, [value.value for value in result])
            return context.get_dummy_value() if result is None else result.value

        if numba.config.DISABLE_JIT:
            return functools.wraps(function)(interpreted)
        typing.__signature__ = inspect.signature(function)  # Numba counts arguments; ``m`` stands for the context
        return intrinsic(functools.update_wrapper(typing, function, updated=()))

    return decorate


def _unsigned(value):
    return np.uint64(value) if isinstance(value, int) else value


def dot(a, b):
    """Dot product of two triples of vectors."""
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


def cross(a, b):
    """Cross product of two triples of vectors."""
    return [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]


def minus(a, b):
    """Difference of two triples of vectors."""
    return [p - q for p, q in zip(a, b)]


def conjunction(conditions):
    """Lanes in which all conditions hold."""
    return functools.reduce(operator.and_, conditions)
