"""Array operations of the solver's inner loop, on numpy arrays or on torch tensors.

On the CPU the arrays are small and the fixed cost of a call dominates; numpy's is a fraction of torch's. So states on
the CPU are passed to numpy without copying, and only the field is called with tensors. States on a GPU stay tensors.
The solver uses what numpy and torch have in common: operators, indexing, and the functions of ``Arrays.xp``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Array", "Arrays", "Evaluate", "Field", "HostArrays", "TensorArrays", "take_rows"]

Array = Any  # an ndarray or a Tensor, always of one kind in one solve

Field = Callable[[Tensor, Tensor], Tensor]
"""``field(t (B,), h (B, D)) -> dh/dt (B, D)``; rows are independent. A field with data per row, such as frozen noise,
also has ``take(rows)``, which gives the same field for those rows alone."""

Evaluate = Callable[[Tensor, Array], Array]
"""A field on the arrays of the inner loop; its times are tensors already."""


def take_rows(field: Field, rows: Tensor) -> Field:
    """The same field for some of the rows; one without ``take`` is used as it is."""
    take = getattr(field, "take", None)
    return field if take is None else take(rows)


_ONE_THREAD = 9216  # larger products are run on several threads by numpy's BLAS, which is slower at these sizes
_SUBSCRIPTS = {(1, 2): "i,ij->j", (2, 2): "ki,ij->kj", (2, 1): "ij,j->i"}


class HostArrays:
    """Numpy, for states on the CPU."""

    xp: Any = np  # where, maximum, minimum, multiply, count_nonzero

    def wrap(self, tensor: Tensor) -> Array:
        """A tensor as an array."""
        return tensor.detach().numpy()

    def unwrap(self, array: Array) -> Tensor:
        """An array as a tensor."""
        return torch.from_numpy(np.ascontiguousarray(array))

    def cast(self, array: Array, like: Array) -> Array:
        """The same numbers in the format of ``like``."""
        return array.astype(like.dtype, copy=False)

    def empty(self, shape: Sequence[int], like: Array) -> Array:
        """Room for numbers in the format of ``like``."""
        return np.empty(shape, like.dtype)

    def stack(self, arrays: Sequence[Array]) -> Tensor:
        """Arrays of one shape as one tensor."""
        return torch.from_numpy(np.stack(arrays))

    def product(self, a: Array, b: Array) -> Array:
        """A matrix times a vector or a matrix, or a vector times a matrix."""
        if max(a.size, b.size) < _ONE_THREAD:
            return a @ b
        return np.einsum(_SUBSCRIPTS[a.ndim, b.ndim], a, b)

    def spread(self, values: Array, columns: int) -> Array:
        """One value per row ``(n,)`` for every column ``(n, D)``."""
        return values.repeat(columns).reshape(-1, columns)  # copies, because numpy is slow where rows are short

    def nodes(self, times: Array) -> Sequence[Tensor]:
        """The times of all stages ``(6, n)`` as one tensor per stage."""
        return torch.from_numpy(times).unbind(0)

    def bind(self, field: Field) -> Evaluate:
        """A field on arrays."""
        from_numpy = torch.from_numpy

        def evaluate(t: Tensor, h: Array) -> Array:
            slope = field(t, from_numpy(h))
            return slope.detach().numpy() if slope.requires_grad else slope.numpy()

        return evaluate


class TensorArrays:
    """Torch, for states anywhere else."""

    xp: Any = torch

    def wrap(self, tensor: Tensor) -> Array:
        """A tensor as an array."""
        return tensor.detach()

    def unwrap(self, array: Array) -> Tensor:
        """An array as a tensor."""
        return array  # type: ignore[no-any-return]

    def cast(self, array: Array, like: Array) -> Array:
        """The same numbers in the format of ``like``."""
        return array.to(like.dtype)

    def empty(self, shape: Sequence[int], like: Array) -> Array:
        """Room for numbers in the format of ``like``."""
        return like.new_empty(shape)

    def stack(self, arrays: Sequence[Array]) -> Tensor:
        """Arrays of one shape as one tensor."""
        return torch.stack(list(arrays))

    def product(self, a: Array, b: Array) -> Array:
        """A matrix times a vector or a matrix, or a vector times a matrix."""
        return a @ b

    def spread(self, values: Array, columns: int) -> Array:
        """One value per row ``(n,)`` for every column ``(n, D)``."""
        return values.unsqueeze(1).expand(-1, columns)

    def nodes(self, times: Array) -> Sequence[Tensor]:
        """The times of all stages ``(6, n)`` as one tensor per stage."""
        return times.unbind(0)  # type: ignore[no-any-return]

    def bind(self, field: Field) -> Evaluate:
        """A field on arrays."""
        return field


Arrays = HostArrays | TensorArrays
