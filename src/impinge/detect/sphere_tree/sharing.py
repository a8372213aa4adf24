"""One budget for many pairs of bodies: pairs that matter more, or are nearer to a viewer, get more of it.

Each pair is queried in order with its share of the time that is left: w_i / Σ w_j over the pairs still to come. Time
that a pair does not use goes to those after it. Interrupting distant pairs earlier is the proposal of
[MendozaOSullivan2005], section 6.

By distance, the weight of a pair is the share of the view that its smaller body fills, (size / distance)², at most 1;
bodies are where the last query tracked them, since tracking them all would take longer than the budget.

Below 0.2 ms for each pair, half of which is overhead, the lightest pairs are skipped: they are ``possible``, and their
reason is "budget". Give these more weight in the next frame.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from impinge.backend.clock import now_ns
from impinge.budget import Budget
from impinge.checks import Floats, as_numbers, shown
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.detect.sphere_tree.detector import SphereTree
from impinge.errors import OptionError

LEAST_NS = 200_000
"""A pair with less time than this is skipped."""
SKIPPED_NS = 8_000
"""Time to return the result of a skipped pair."""


def share_budget(
    trees: Iterable[SphereTree], budget_ms: float, *, weights: ArrayLike | None = None, viewer: ArrayLike | None = None
) -> list[SphereContacts]:
    """Query many detectors within one budget, shared evenly, by weights, or by the distance to a viewer.

    Parameters
    ----------
    trees : iterable of SphereTree
        One for each pair of bodies.
    budget_ms : float
        Milliseconds for all of them.
    weights : array_like, shape (n,), optional
        Shares of the budget.
    viewer : array_like, shape (3,), optional
        A point; pairs that fill more of its view get more time.

    Returns
    -------
    list of SphereContacts
        One for each pair, in order.

    Raises
    ------
    OptionError
        If an argument has the wrong type or shape, or if weights and viewer are both given.
    """
    end = Budget(budget_ms).deadline_ns(now_ns())
    if isinstance(trees, SphereTree):
        raise OptionError("trees is one SphereTree, expected several; call its query with the whole budget")
    try:
        trees = list(trees)
    except Exception as error:  # iterators of a caller may raise anything
        raise OptionError(f"trees is {shown(trees)}, expected several SphereTree") from error
    for k, tree in enumerate(trees):
        if not isinstance(tree, SphereTree):
            raise OptionError(
                f"trees[{k}] is a {type(tree).__name__}, expected a SphereTree, one for each pair of bodies"
            )
    if weights is not None and viewer is not None:
        raise OptionError("weights and viewer are both given; a budget is shared by one of them")
    share = np.ones(len(trees))
    if weights is not None:
        share = np.array(as_numbers(weights, "weights"), dtype=np.float64)
        if share.shape != (len(trees),):
            raise OptionError(f"weights have shape {share.shape}, expected ({len(trees)},): one for each pair")
        if not (np.isfinite(share) & (share >= 0.0)).all() or (trees and not share.any()):
            raise OptionError("weights hold a negative or non-finite number, or only zeros; expected shares")
        share /= share.max(initial=np.finfo(np.float64).tiny)
    elif viewer is not None:
        share = _by_distance(trees, viewer)
    skipped = np.argsort(-share, kind="stable")[max((end - now_ns()) // LEAST_NS, 1) :]
    share[skipped] = 0.0
    end -= SKIPPED_NS * len(skipped)
    left = np.append(np.cumsum(share[::-1])[::-1], 0.0)
    results = []
    for k, tree in enumerate(trees):
        part_ns = (end - now_ns()) * (share[k] / left[k] if left[k] > 0.0 else 1.0)
        results.append(tree.query(budget_ms=1e-6 * float(part_ns)) if part_ns >= 1.0 else tree.skipped())
    return results


def _by_distance(trees: list[SphereTree], viewer: ArrayLike) -> Floats:
    """Share of the view that the smaller body of each pair fills."""
    eye = np.asarray(as_numbers(viewer, "viewer"), dtype=np.float64)
    if eye.shape != (3,):
        raise OptionError(f"viewer has shape {eye.shape}, expected (3,): a point")
    if not np.isfinite(eye).all():
        raise OptionError(f"viewer is {shown(eye.tolist())}, expected a point with finite coordinates")
    root = np.array([tree.roots() for tree in trees]).reshape(-1, 2, 4)
    exists = np.isfinite(root).all(axis=(1, 2))  # bodies without triangles are neither seen nor searched
    root = np.where(exists[:, None, None], root, 0.0)
    unit = np.maximum(np.abs(root).max(axis=(1, 2)), float(np.abs(eye).max()))[:, None, None]
    unit[unit == 0.0] = 1.0  # squares are then moderate
    size = 2.0 * (root[:, :, 3:] / unit)[:, :, 0]
    distance = np.linalg.norm(root[:, :, :3] / unit - eye / unit, axis=2)
    is_far = distance > size
    share = np.where(is_far, size / np.where(is_far, distance, 1.0), 1.0).min(axis=1) ** 2 * exists
    return share if share.any() else np.ones(len(trees))
