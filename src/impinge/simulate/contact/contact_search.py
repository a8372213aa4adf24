"""Contacts within a thin layer around bodies, and the exact test of every motion.

Layer       Bodies keep a contact distance δ. A pair of features with a gap g is a contact of depth δ - g, whose force
            becomes stiffer as the gap closes (``deform.implicit.contact_kernels``: ``layer``). δ is that of the thinner
            one of two layers, by default ``LAYER`` of the size of a body; of cloth, half the thickness, of two cloths
            half of the sum. Features of one body that are near each other at rest keep ``AT_REST`` of that distance.
Stiffness   k = K times area, K = M / δ with the modulus M of the softer body: a pressure of M compresses the layer by
            its thickness. No tuning: M follows from Young's modulus and from the pressure of the weight.
Contacts    Features nearer than ``NEAR`` δ (``near_pairs``), those that would meet at the present velocities, and those
            that carried a load in the last step. Of one group of vertices and one direction, the nearest.
Verify      The surfaces move along straight lines from the committed positions to those of the solution. Impacts
            (``detect.continuous``, exact) become contacts, and the step is solved again. A motion without impacts is
            committed: by induction, nothing ever crosses.
Crossing    Bodies that cross at the start, or were moved into each other, are parted (``parting``). Until they are
            apart, impacts where they cross are excepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from impinge.bodies.rigid_body import RigidBody
from impinge.checks import Floats
from impinge.contact.contacts import body_key
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.continuous.impact_results import Impacts
from impinge.detect.proximity.relation import relation_of
from impinge.mesh.tri_mesh import TriMesh
from impinge.respond.contact_forces import ContactConstraints
from impinge.simulate.contact import normals_kernels as kernels
from impinge.simulate.contact.near_pairs import near_pairs, renewed
from impinge.simulate.contact.pairs import SPLIT, Ids, Pairs, hashed, joined, no_pairs
from impinge.simulate.contact.verification import Verification, ground_pairs
from impinge.simulate.pair_scheduler import Pair
from impinge.simulate.search.constraints import GROUND, ContactSide, no_constraints, point_constraints
from impinge.simulate.search.searches import GROUND_KEY, SearchContext
from impinge.simulate.simulated_bodies import DynamicBody

if TYPE_CHECKING:
    from impinge.simulate.contact.parting import Parting

AT_REST = 0.2
"""Contact distance of features of one body relative to their distance at rest."""
NEAR = 1.5
"""Distance at which features are contacts, relative to the contact distance."""
SAME_DIRECTION = 0.7
"""Cosine of normals from which on two contacts of a group are one."""


class ContactSearch:
    """Contacts of all bodies; positions are those of the world's surfaces."""

    def __init__(self, context: SearchContext, layers: Mapping[int, float]) -> None:
        self._context = context
        self._static: dict[Pair, BoxTree] = {}
        self._versions = [-1] * len(context.bodies)
        self.crossing: set[Pair] = set()
        """Pairs of bodies that cross, i <= j; impacts where they cross are excepted from verification."""
        self.last = no_pairs()
        """Contacts of the last step that carried a load; part of the state of a run."""
        self._layer = np.array([layers.get(number, np.inf) for number in range(len(context.bodies))])
        self.surfaces: list[TriMesh] = [context.world.surface(body.name) for body in context.bodies]
        dynamic = np.flatnonzero(context.is_soft)
        self._dynamic: list[int] = dynamic.tolist()
        self._deforming = [n for n in self._dynamic if not isinstance(context.bodies[n].source, RigidBody)]
        self._verification = Verification(self.surfaces, self._deforming)
        self.margin = float(self.distances(dynamic, dynamic).max(initial=0.0))
        """The largest contact distance [m]."""
        self.looks_ahead = True
        self.excepted: set[Pair] = set()
        """Pairs of bodies whose motion is not verified in this frame: scripted bodies left them no room."""
        self._parting: Parting | None = None
        self._keys = np.array([body_key(body.name) for body in context.bodies], dtype=np.uint64)

    def distances(self, a: Ids, b: Ids) -> Floats:
        """Contact distance of pairs of bodies [m]; a may be the ground."""
        ground = a == GROUND
        one, other = np.where(ground, np.inf, self._layer[a]), self._layer[b]
        cloth_a, cloth_b = self._context.is_cloth[a] & ~ground, self._context.is_cloth[b]
        cloth = 0.5 * (np.where(cloth_a, one, 0.0) + np.where(cloth_b, other, 0.0))
        return np.asarray(np.where(cloth > 0.0, cloth, np.minimum(one, other)))

    def _hardness(self, a: Ids, b: Ids) -> Floats:
        """Pressure per depth [Pa / m]: of the softer body; of cloth and another soft body, of the stiffer one."""
        one = np.where(a == GROUND, b, a)
        mixed = self._context.is_cloth[one] != self._context.is_cloth[b]
        return np.where(mixed, self._context.harder(one, b), self._context.hardness(one, b))

    # contacts -----------------------------------------------------------------------------------------

    def begin(self, ends: Sequence[Floats], ground: tuple[Floats, float] | None) -> tuple[Pairs, Pairs]:
        """Pairs near each other, and those that would meet as surfaces move to ``ends``; the latter also apart."""
        context = self._context
        candidates = context.world.near_pairs(margin=NEAR * self.margin).tolist()
        candidates += [(n, n) for n in self._deforming]
        found = list[Pairs]()
        for a, b in candidates:
            if self._allowed(a, b):
                margin = NEAR * float(self.distances(np.array([a]), np.array([b]))[0])
                is_crossing = (a, b) in self.crossing
                near = self._verification.tracker(a, b).near(margin)
                found.append(near_pairs(a, self.surfaces[a], b, self.surfaces[b], near, outside_only=is_crossing))
        if ground is not None:
            found += [self._above(n, *ground) for n in self._dynamic]
        ahead = self.impacts(ends, ground)
        found.append(ahead.rows(ahead.kind != 2))
        pairs = joined(found)
        before = self._renewed(self.last.rows(~np.isin(self.last.key, pairs.key)))
        both = joined([self._away_from_crossings(pairs, sheets_only=True), self._away_from_crossings(before)])
        return self._thinned(both), ahead

    def _away_from_crossings(self, pairs: Pairs, *, sheets_only: bool = False) -> Pairs:
        """Without pairs where bodies cross: on which side features should be is for ``parting`` to say."""
        keep = np.ones(pairs.size, dtype=np.bool_)
        for a, b in sorted(self.crossing):
            if sheets_only and a != b and self.surfaces[a].is_closed and self.surfaces[b].is_closed:
                continue
            rows = np.flatnonzero((pairs.body_a == a) & (pairs.body_b == b))
            if self._parting is not None and len(rows):
                keep[rows] = self._parting.is_new(a, b, pairs.vertices[rows], SPLIT[pairs.kind[rows]])
        return pairs.rows(keep)

    def _thinned(self, pairs: Pairs) -> Pairs:
        """Of pairs of one coarse group and direction, only the nearest, now and at the end, with the area of all."""
        pairs = pairs.rows(np.sort(np.unique(pairs.key, return_index=True)[1]))
        area = self._areas(pairs)
        group = self._groups(pairs)
        total = np.zeros(pairs.size)
        for least in (pairs.end_gap, pairs.gap):
            chosen, summed = np.ones(pairs.size, dtype=np.bool_), area.copy()
            order = np.lexsort((least, group))
            kernels.keep_nearest(order, group, pairs.normal, SAME_DIRECTION, area, chosen, summed)
            total[chosen] += 0.5 * summed[chosen]
        rows = np.flatnonzero(total > 0.0)
        return pairs.rows(rows)._replace(area=total[rows], group=group[rows])

    def _groups(self, pairs: Pairs) -> Ids:
        """A hash of the coarse groups of each pair, and of its features where bodies are not dense."""
        groups = pairs.vertices.astype(np.int64)
        is_vertex = [pairs.kind == 0, pairs.kind == 1]
        for side, numbers in ((0, pairs.body_a), (1, pairs.body_b)):
            for number in np.unique(numbers[numbers != GROUND]).tolist():
                body = self._context.bodies[number]
                if not isinstance(body, DynamicBody) or not body.is_dense:
                    continue
                rows = np.flatnonzero(numbers == number)
                own = np.arange(4) < SPLIT[pairs.kind[rows]][:, None]
                own = own if side == 0 else ~own
                most = np.where(own, pairs.weights[rows], -1.0).argmax(axis=1)
                coarse = body.coarse_group[pairs.vertices[rows, most]]
                groups[rows] = np.where(own, coarse[:, None], groups[rows])
        for kind, column in ((0, 0), (1, 3)):  # a vertex has one contact per direction with a body
            rows = is_vertex[kind]
            groups[rows] = groups[rows][:, column][:, None]
        return hashed(pairs.kind, pairs.body_a, pairs.body_b, groups)

    def _areas(self, pairs: Pairs) -> Floats:
        """Area of the smaller side of each pair [m²]."""
        first = np.arange(4) < SPLIT[pairs.kind][:, None]
        area = np.full((2, pairs.size), np.inf)
        for numbers, mask, of_side in ((pairs.body_a, first, area[0]), (pairs.body_b, ~first, area[1])):
            weights = np.where(mask, pairs.weights, 0.0)
            for number in np.unique(numbers[numbers != GROUND]).tolist():
                rows = np.flatnonzero(numbers == number)
                own = np.where(mask[rows], pairs.vertices[rows], 0)
                of_side[rows] = (weights[rows] * self._context.bodies[number].area[own]).sum(axis=1)
        return np.asarray(area.min(axis=0))

    def _renewed(self, pairs: Pairs) -> Pairs:
        """Contacts of the last step at the present positions, as far as they are within twice the contact distance."""
        found = list[Pairs]()
        code = pairs.body_a * len(self.surfaces) + pairs.body_b
        for each in np.unique(code[pairs.body_a != GROUND]).tolist():
            a, b = divmod(each, len(self.surfaces))
            found.append(renewed(a, self.surfaces[a], b, self.surfaces[b], pairs.rows(code == each)))
        again = joined(found)
        return again.rows(again.gap < 2.0 * self.pair_distances(again))

    def with_impacts(self, pairs: Pairs, hits: Pairs) -> tuple[Pairs, bool]:
        """Pairs and those that have met; and whether that may prevent the impacts.

        Two edges that meet elsewhere than at their nearest points are another contact. What meets where a contact is
        already makes that contact stiffer.
        """
        is_known = np.isin(hits.key, pairs.key)
        new = self._thinned(hits.rows(~is_known))
        boost, elsewhere = pairs.boost.copy(), np.zeros(hits.size, dtype=np.bool_)
        kernels.boost_or_add(
            np.flatnonzero(is_known), hits.key, hits.weights, hits.normal, np.argsort(pairs.key, kind="stable"),
            pairs.key, pairs.weights, pairs.normal, boost, elsewhere,
        )  # fmt: skip
        more = hits.rows(elsewhere)
        more = more._replace(area=self._areas(more), group=hashed(more.key, np.arange(more.size)))
        may_help = new.size + more.size > 0 or bool((boost > pairs.boost).any())
        return joined([pairs._replace(boost=boost), new._replace(group=new.key), more]), may_help

    def commit(self, pairs: Pairs, is_pressed: NDArray[np.bool_]) -> None:
        """Remember contacts of a step that is final, and look whether bodies that crossed are apart."""
        self.last = pairs.rows(is_pressed & (pairs.body_a != GROUND))
        self._versions = [surface.version for surface in self.surfaces]
        for a, b in sorted(self.crossing):
            self._update_crossing(a, b)

    def _above(self, number: int, normal: Floats, height: float) -> Pairs:
        """Vertices near the ground."""
        surface = self.surfaces[number]
        used = surface.used_vertices
        gap = surface.vertices[used] @ normal - height
        margin = NEAR * float(self.distances(np.array([GROUND]), np.array([number]))[0])
        near = np.flatnonzero(gap < margin)
        return ground_pairs(number, used[near], gap[near], gap[near], normal)

    def constraints(self, pairs: Pairs) -> ContactConstraints:
        """Contacts of the given pairs."""
        count = pairs.size
        if not count:
            return no_constraints()
        context = self._context
        sides = list[ContactSide]()
        first = np.arange(4) < SPLIT[pairs.kind][:, None]
        for numbers, mask, sign in ((pairs.body_a, first, 1.0), (pairs.body_b, ~first, -1.0)):
            weights = np.where(mask, pairs.weights, 0.0)
            for number in np.unique(numbers[numbers != GROUND]).tolist():
                rows = np.flatnonzero(numbers == number)
                row, column = np.nonzero(weights[rows] != 0.0)
                row = rows[row]
                vertex, weight = pairs.vertices[row, column].astype(np.int64), weights[row, column]
                sides.append(ContactSide(context.bodies[number], row, vertex, sign * weight))
        delta = self.pair_distances(pairs)
        return point_constraints(
            sides, normal=pairs.normal, depth=delta - pairs.gap,
            stiffness=self._hardness(pairs.body_a, pairs.body_b) * pairs.area * pairs.boost, relax=np.zeros(count),
            key=self._keys_of(pairs), body_a=pairs.body_a, body_b=pairs.body_b,
            wall=np.where(self._crosses(pairs) | (pairs.gap <= 0.0), np.inf, delta),
        )  # fmt: skip

    def parting(self) -> ContactConstraints:
        """Contacts that part bodies that cross."""
        if not self.crossing:
            return no_constraints()
        if self._parting is None:
            from impinge.simulate.contact.parting import Parting  # SciPy is a slow import

            self._parting = Parting(self._context)
        return self._parting.constraints(self.crossing, self.distances)

    def pair_distances(self, pairs: Pairs) -> Floats:
        """Contact distance of each pair [m]."""
        delta = self.distances(pairs.body_a, pairs.body_b)
        for number in np.unique(pairs.body_a[pairs.body_a == pairs.body_b]).tolist():
            rows = np.flatnonzero((pairs.body_a == number) & (pairs.body_b == number))
            body, at_rest = self._context.bodies[number], np.zeros(len(rows))
            rest = body.source.rest_surface if isinstance(body, DynamicBody) else body.rest
            kernels.measure_rest.over(len(rows))(pairs.kind[rows], pairs.vertices[rows], rest, at_rest)
            delta[rows] = np.minimum(delta[rows], AT_REST * at_rest)
        return delta

    def _crosses(self, pairs: Pairs) -> NDArray[np.bool_]:
        """Pairs of bodies that cross."""
        count = len(self.surfaces)
        crossing = np.array([a * count + b for a, b in self.crossing], dtype=np.int64)
        return np.isin(pairs.body_a * count + pairs.body_b, crossing)

    def _keys_of(self, pairs: Pairs) -> Ids:
        return hashed(np.where(pairs.body_a == GROUND, GROUND_KEY, self._keys[pairs.body_a]),
            self._keys[pairs.body_b], pairs.group,
        )  # fmt: skip

    # verification -------------------------------------------------------------------------------------

    def impacts(self, ends: Sequence[Floats], ground: tuple[Floats, float] | None) -> Pairs:
        """Pairs that meet as surfaces move to ``ends``."""
        return self._verification.impacts(
            ends, ground, self._dynamic, lambda a, b: (a, b) not in self.excepted and self._allowed(a, b), self._new_of
        )

    def _new_of(self, a: int, b: int, hits: Impacts) -> Impacts:
        """Impacts of two bodies, of those that cross away from where they do."""
        if (a, b) in self.crossing and self._parting is not None:
            return hits.rows(self._parting.is_new(a, b, hits.vertices, SPLIT[hits.kind]))
        return hits

    def _allowed(self, a: int, b: int) -> bool:
        """Whether two bodies may collide, and at least one of them is dynamic."""
        context = self._context
        if not (context.is_soft[a] or context.is_soft[b]):
            return False
        return not context.world.ignores(context.bodies[a].name, context.bodies[b].name)

    def refresh(self) -> None:
        """Test bodies that have changed since the last step, and were not moved by it, for crossing others."""
        self.excepted.clear()
        context = self._context
        versions = [surface.version for surface in self.surfaces]
        chosen = {n for n, (now, before) in enumerate(zip(versions, self._versions)) if now != before}
        self._versions = versions
        if not chosen:
            return
        candidates = [(a, b) for a, b in context.world.near_pairs().tolist() if a in chosen or b in chosen]
        candidates += [(n, n) for n in sorted(chosen) if context.is_soft[n]]
        for a, b in candidates:
            if self._allowed(a, b):
                self._update_crossing(a, b)

    def _is_within(self, a: int, b: int) -> bool:
        """Whether one body is inside the other."""
        surfaces = self.surfaces[a], self.surfaces[b]
        if a == b:
            return False
        return relation_of(self._static[a, b].query(), *surfaces) in ("a in b", "b in a")

    def _update_crossing(self, a: int, b: int) -> None:
        if (a, b) not in self._static:
            self._static[a, b] = BoxTree(self.surfaces[a], None if a == b else self.surfaces[b])
        if len(self._static[a, b].query()) or self._is_within(a, b):
            self.crossing.add((a, b))
        else:
            self.crossing.discard((a, b))
