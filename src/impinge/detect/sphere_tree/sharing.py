"""One budget for many pairs of bodies: those that matter more, or are nearer to a viewer, get more of it.

Each pair is asked in turn with its part of the time that is left: w_i / Σ w_j over the pairs that are still to come.
What a pair does not need is thereby shared by those after it. Interrupting what is far away earlier is the
proposal of [MendozaOSullivan2005], section 6.

By distance, the weight of a pair is the share of the view that its smaller body fills, (size / distance)², at most 1;
bodies are where the last query saw them, since to look at them all would take longer than the budget.

Where there is not a fifth of a millisecond for each pair, of which a query may take half by itself, the lightest pairs
get none: they are ``possible``, and their reason is "budget". Give these more weight in the next frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from impinge.backend.clock import now_ns
from impinge.checks import Floats, as_numbers, shown
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.detect.sphere_tree.search.limits import budget_ns
from impinge.errors import OptionError

LEAST_NS = 200_000
"""A pair with less time than this gets none."""
UNASKED_NS = 8_000
"""What it takes to say so."""


def share_budget(
    trees: Iterable[SphereTree], budget_ms: float, *, weights: Any = None, viewer: Any = None
) -> list[SphereContacts]:
    """Query many detectors within one budget, shared evenly, by ``weights``, or by the distance to a ``viewer``."""
    end = now_ns() + budget_ns(budget_ms)
    if isinstance(trees, SphereTree):
        raise OptionError("trees is one SphereTree, expected several; ask its query with the whole budget")
    trees = list(trees)
    for k, tree in enumerate(trees):
        if not isinstance(tree, SphereTree):
            raise OptionError(
                f"trees[{k}] is a {type(tree).__name__}, expected a SphereTree, one for each pair of bodies"
            )
    if weights is not None and viewer is not None:
        raise OptionError("weights and viewer were both given; a budget is shared by one of them")
    share = np.ones(len(trees))
    if weights is not None:
        share = _checked(weights, len(trees))
    elif viewer is not None:
        share = _by_distance(trees, viewer)
    unasked = np.argsort(-share, kind="stable")[max((end - now_ns()) // LEAST_NS, 1) :]
    share[unasked] = 0.0
    end -= UNASKED_NS * len(unasked)
    left = np.append(np.cumsum(share[::-1])[::-1], 0.0)
    results = []
    for k, tree in enumerate(trees):
        part_ns = (end - now_ns()) * (share[k] / left[k] if left[k] > 0.0 else 1.0)
        results.append(tree.query(budget_ms=1e-6 * float(part_ns)) if part_ns >= 1.0 else tree.unasked())
    return results


def _checked(weights: Any, count: int) -> Floats:
    array = np.asarray(as_numbers(weights, "weights"), dtype=np.float64)
    if array.shape != (count,):
        raise OptionError(f"weights have shape {array.shape}, expected ({count},): one for each pair")
    if not (np.isfinite(array) & (array >= 0.0)).all() or (count and not array.any()):
        raise OptionError("weights hold a negative or non-finite number, or only zeros; expected shares of the budget")
    return array / array.max(initial=0.0) if count else array


def _by_distance(trees: Sequence[SphereTree], viewer: Any) -> Floats:
    eye = np.asarray(as_numbers(viewer, "viewer"), dtype=np.float64)
    if eye.shape != (3,):
        raise OptionError(f"viewer has shape {eye.shape}, expected (3,): a point")
    if not np.isfinite(eye).all():
        raise OptionError(f"viewer is {shown(eye.tolist())}, expected a point with finite coordinates")
    root = np.array([tree.roots() for tree in trees]).reshape(-1, 2, 4)
    is_there = np.isfinite(root).all(axis=(1, 2))  # of others there is nothing to see, and nothing to search
    root = np.where(is_there[:, None, None], root, 0.0)
    unit = np.maximum(np.abs(root).max(axis=(1, 2)), float(np.abs(eye).max()))[:, None, None]
    unit[unit == 0.0] = 1.0  # squares are then moderate
    size = 2.0 * (root[:, :, 3:] / unit)[:, :, 0]
    distance = np.linalg.norm(root[:, :, :3] / unit - eye / unit, axis=2)
    is_far = distance > size
    share = np.where(is_far, size / np.where(is_far, distance, 1.0), 1.0).min(axis=1) ** 2 * is_there
    return share if share.any() else np.ones(len(trees))
