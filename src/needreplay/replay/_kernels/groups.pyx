"""A sum tree whose leaves are in groups, so that a slot can be found within any one of them.

A page is 8^k places, the leaves below one node, so that the node's mass is the page's. A page is of
one group. All pages of a group but one are full: its last slot takes the place of one that leaves.
"""

from numpy cimport int64_t

import numpy as np

from needreplay._core.errors import NeedReplayError

cimport numpy as cnp

from needreplay.replay._kernels.arrays cimport i64
from needreplay.replay._kernels.sumtree cimport FANOUT, SumTree

cnp.import_array()


def empty_groups(Py_ssize_t capacity, Py_ssize_t n_groups):
    """What has to be saved, what follows from it, and the tree, of slots that are in no group.

    ``place`` of each slot, ``group`` of each page; ``slot_at`` each place, ``members`` of each page
    and the ``partial`` page of each group; -1 is none. Memory that is never used is never touched, so
    pages may be large: there are few of them, and each is looked at for every query.
    """
    size = FANOUT
    while size * FANOUT * n_groups <= 4 * capacity:
        size *= FANOUT
    n_pages = capacity // size + min(n_groups, capacity)
    saved = {"place": np.full(capacity, NONE), "group": np.full(n_pages, NONE)}
    derived = {
        "slot_at": np.zeros(n_pages * size, dtype=np.int64),
        "members": np.zeros(n_pages, dtype=np.int64),
        "partial": np.full(n_groups, NONE),
    }
    return saved, derived, SumTree(n_pages * size)


cdef class Groups:
    """Bound to the arrays and the tree of ``empty_groups``.

    Sums above changed leaves wait for ``settle``, so that a batch of changes goes up as one.
    """

    def __init__(self, dict arrays, SumTree tree):
        self._kept, self.tree = arrays, tree
        self.capacity, self.n_pages = len(arrays["place"]), len(arrays["group"])
        self.n_groups, self.page_size = len(arrays["partial"]), tree.capacity // self.n_pages
        cdef Py_ssize_t size = 1
        while size < self.page_size:
            size *= FANOUT
            self.level += 1
        self.place = i64(arrays["place"], self.capacity)
        self.group, self.members = i64(arrays["group"], self.n_pages), i64(arrays["members"], self.n_pages)
        self.slot_at = i64(arrays["slot_at"], tree.capacity)
        self.partial = i64(arrays["partial"], self.n_groups)

    cdef int64_t page_of(self, int64_t slot) noexcept nogil:
        """The page of a slot that is in a group."""
        return self.place[slot] // self.page_size

    cdef double page_mass(self, Py_ssize_t page) noexcept nogil:
        return self.tree.numbers[self.tree.first[self.level] + page]

    cdef int set(self, int64_t slot, double mass) except -1 nogil:
        """Set the mass of a slot that is in a group."""
        return self.change(self.place[slot], mass)

    cdef int join(self, int64_t slot, int64_t group, double mass) except -1 nogil:
        """Put a slot that is in no group into ``group``."""
        cdef int64_t page = self.partial[group], place
        if page == NONE:
            page = self.new_page(group)
        place = page * self.page_size + self.members[page]
        self.place[slot], self.slot_at[place] = place, slot
        self.members[page] += 1
        self.partial[group] = page if self.members[page] < self.page_size else NONE
        return self.change(place, mass)

    cdef double leave(self, int64_t slot) except? -1.0 nogil:
        """Take ``slot`` out of its group, if it is in one; returns its mass."""
        cdef int64_t place = self.place[slot], page, last, group
        cdef double mass
        if place == NONE:
            return 0.0
        mass, group = self.tree.numbers[place], self.group[place // self.page_size]
        page = self.partial[group] if self.partial[group] != NONE else place // self.page_size
        self.members[page] -= 1
        last = page * self.page_size + self.members[page]
        if last != place:
            self.slot_at[place] = self.slot_at[last]
            self.place[self.slot_at[place]] = place
            self.change(place, self.tree.numbers[last])
        self.place[slot], self.partial[group] = NONE, page
        if self.members[page] == 0:
            self.group[page] = self.partial[group] = NONE
            self.first_free = min(self.first_free, page)
        self.change(last, 0.0)
        return mass

    cdef int64_t new_page(self, int64_t group) noexcept nogil:
        """The first free page, which is of ``group`` from now on.

        There is always one: each group has at most one page that is not full.
        """
        while self.group[self.first_free] != NONE:
            self.first_free += 1
        self.group[self.first_free] = group
        return self.first_free

    cdef int change(self, int64_t place, double mass) except -1 nogil:
        self.tree.numbers[place] = mass
        self.changed[self.n_changed] = place
        self.n_changed += 1
        return self.settle() if self.n_changed == MOST_CHANGED else 0

    cdef int settle(self) except -1 nogil:
        """Bring the sums up to date."""
        cdef Py_ssize_t count = self.n_changed
        self.n_changed = 0
        return self.tree.sum_above(self.changed, count)

    def settled(self):
        """The tree, with its sums up to date."""
        self.settle()
        return self.tree

    def restore(self):
        """Derive all but masses from ``place`` and ``group``; whether these are possible."""
        place, group = self._kept["place"], self._kept["group"]
        placed = place[place != NONE]
        pages, members = placed // self.page_size, self._kept["members"]
        if (
            (place < NONE).any() or (placed >= self.tree.capacity).any()
            or (group < NONE).any() or (group >= self.n_groups).any()
        ):
            return False
        members[:] = np.bincount(pages, minlength=self.n_pages)
        self.tree.array[:] = 0.0
        self._kept["slot_at"][:] = 0
        self._kept["partial"][:] = NONE
        self.first_free = self.n_changed = 0
        partial = (group != NONE) & (members < self.page_size)
        if (
            len(np.unique(placed)) < len(placed)
            or (placed % self.page_size >= members[pages]).any()
            or not np.array_equal(group != NONE, members > 0)
            or len(np.unique(group[partial])) < partial.sum()
        ):
            return False
        self._kept["slot_at"][placed] = np.flatnonzero(place != NONE)
        self._kept["partial"][group[partial]] = np.flatnonzero(partial)
        return True

    def check_valid(self):
        """Raise unless what is derived follows from ``place`` and ``group``."""
        place, group, members = (self._kept[name] for name in ("place", "group", "members"))
        placed = place[place != NONE]
        self.settled().check_valid()
        empty = np.ones(self.tree.capacity, dtype=np.bool_)
        empty[placed] = False
        full = np.flatnonzero((group != NONE) & (members < self.page_size))
        partial = np.full(self.n_groups, NONE)
        partial[group[full]] = full
        if (
            not np.array_equal(self._kept["slot_at"][placed], np.flatnonzero(place != NONE))
            or not np.array_equal(members, np.bincount(placed // self.page_size, minlength=self.n_pages))
            or not np.array_equal(partial, self._kept["partial"])
            or self.tree.masses[empty].any()
        ):
            raise NeedReplayError("A slot is not in the place that it should have in its group.")
