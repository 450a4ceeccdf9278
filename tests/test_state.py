"""Declared state: saved, restored, compared between ranks, and dealt to other numbers of them."""

import numpy as np
import pytest
import torch

from envlab.envs import DirectEnv
from envlab.errors import CheckpointError, ConfigurationError
from envlab.learner import Learner
from envlab.state import (
    Ring,
    Share,
    State,
    deal,
    dealt_steps,
    restore,
    save,
    shared,
    without_tensors,
)

CPU = torch.device("cpu")


class Term:
    STATE = State(per_env=("phase",), shared=("_bins",))

    def __init__(self, phases):
        self.phase = torch.tensor(phases)
        self._bins = torch.tensor([1.0, 2.0])


class Own:
    """Saves itself, like physics."""

    def __init__(self, values):
        self.values = values

    def state(self):
        return {"rows": self.values.clone()}

    def set_state(self, state):
        self.values = state["rows"].clone()


class Base:
    STATE = State(shared=("steps",), parts=("terms", "nothing"))
    nothing = None

    def __init__(self, ids):
        self.steps = 5
        self.terms = {"a": Term([float(i) for i in ids]), "b": Term([-float(i) for i in ids])}


class Whole(Base):
    STATE = State(
        per_env=("sim", "foreign.dones", "_groups", "late"),
        per_env_dim_1=("memory",),
        of_rank=("noise",),
    )
    late = None

    def __init__(self, ids):
        super().__init__(ids)
        self.sim = Own(torch.tensor(ids))
        self.foreign = type("Foreign", (), {})()
        self.foreign.dones = np.array(ids, dtype=np.float64)
        self._groups = {"policy": torch.tensor(ids).unsqueeze(1)}
        self.memory = [torch.tensor(ids).repeat(3, 1), (torch.tensor(ids).repeat(2, 1),)]
        self.noise = 7 + ids[0]
        self.was_restored = False

    def on_restore(self):
        self.was_restored = True


def test_it_comes_back():
    one, other = Whole([0, 1, 2, 3]), Whole([9, 9, 9, 9])
    address = other.terms["a"].phase
    other.steps = other.noise = 0
    restore(other, save(one), CPU)
    assert other.terms["a"].phase is address
    assert address.tolist() == [0, 1, 2, 3]
    assert other.foreign.dones.tolist() == [0, 1, 2, 3]
    assert other.sim.values.tolist() == [0, 1, 2, 3]
    assert other.memory[1][0][1].tolist() == [
        0,
        1,
        2,
        3,
    ]
    assert (other.steps, other.noise, other.was_restored) == (5, 7, True)


def test_it_is_a_copy():
    one = Whole([0, 1])
    saved = save(one)
    one.terms["a"].phase += 1
    one.foreign.dones += 1
    assert saved["terms"]["a"]["phase"].tolist() == [0, 1]
    assert saved["foreign.dones"].tolist() == [0, 1]


def test_what_was_none_is_there_afterwards():
    one, other = Whole([0, 1]), Whole([0, 1])
    one.late = torch.ones(2)
    restore(other, save(one), CPU)
    assert other.late.tolist() == [1, 1]
    assert other.late is not one.late


def test_what_is_new_begins_anew():
    one, other = Whole([0, 1]), Whole([5, 6])
    del one.terms["b"]
    restore(other, save(one), CPU)
    assert other.terms["a"].phase.tolist() == [0, 1]
    assert other.terms["b"].phase.tolist() == [-5, -6]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda saved: saved.pop("memory"), "has no 'memory', which Whole declares"),
        (lambda saved: saved.update(gone=1), "has 'gone', which Whole does not declare"),
        (
            lambda saved: saved["terms"]["a"].update(phase=torch.zeros(3)),
            r"has terms.a.phase of shape \(3,\), but here it is \(2,\)",
        ),
        (
            lambda saved: saved.update(groups={"critic": torch.zeros(2, 1)}),
            r"has groups with \['critic'\], but here it has \['policy'\]",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_named(change, text):
    saved = save(Whole([0, 1]))
    change(saved)
    with pytest.raises(CheckpointError, match=text):
        restore(Whole([0, 1]), saved, CPU)


def test_what_ranks_must_have_alike():
    found = shared(Whole([0, 1]))
    assert list(found) == ["steps", "terms.a.bins", "terms.b.bins"]


@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("now", [1, 2, 4])
def test_rows_are_dealt_by_global_index(before, now):
    each = 8 // before
    saved = [save(Whole(list(range(r * each, (r + 1) * each)))) for r in range(before)]
    num = 8 // now
    for rank in range(now):
        mine = list(range(rank * num, (rank + 1) * num))
        here = Whole([50 + i for i in range(num)])
        restore(here, deal(here, saved, Share(mine[0], num, each)), CPU)
        assert here.terms["a"].phase.tolist() == mine
        assert here.sim.values.tolist() == mine
        assert here.foreign.dones.tolist() == mine
        assert save(here)["groups"]["policy"][:, 0].tolist() == mine
        assert here.memory[0][2].tolist() == mine
        assert here.memory[1][0][1].tolist() == mine
        assert here.noise == 57, "a rank's own begins anew"


def test_of_other_ranks_numbers_are_enough():
    saved = [save(Whole([0, 1])), save(Whole([2, 3])), save(Whole([4, 5]))]
    saved[2]["steps"] = 9
    needed = [without_tensors(saved[0]), saved[1], without_tensors(saved[2])]
    share = Share(2, 2, 2)
    assert share.ranks == range(1, 2)
    dealt = deal(Whole([0, 0]), needed, share)
    assert (dealt["steps"], dealt["sim"]["rows"].tolist()) == (9, [2, 3])
    assert dealt["terms"]["a"]["bins"].tolist() == [1, 2]


def test_parts_may_save_themselves_and_deal_their_rows():
    class Memory(Own):
        def deal(self, saved, share):
            return {"rows": torch.cat([each["rows"] for each in saved])[share.first :][:1] + 100}

    class Holder:
        STATE = State(parts=("memories", "gone"))
        gone = None

        def __init__(self, number):
            self.memories = {"own": Own(torch.tensor([number])), "dealt": Memory(torch.ones(1))}

    saved = [save(Holder(0)), save(Holder(1))]
    one = Holder(5)
    restore(one, deal(one, saved, Share(1, 1, 1)), CPU)
    assert (one.memories["own"].values, one.memories["dealt"].values) == (1, 101)


def test_the_newest_steps_of_rings_are_dealt_in_their_order():
    def ring(env, *steps, added):
        return Ring(torch.tensor([[10 * env + step] for step in steps]), added)

    rings = [ring(1, 4, 2, 3, added=4), ring(2, 4, 2, 3, added=4)]
    assert dealt_steps(rings, Share(0, 2, 1), 9).tolist() == [[12, 22], [13, 23], [14, 24]]
    assert dealt_steps(rings, Share(0, 2, 1), 2).tolist() == [[13, 23], [14, 24]]
    assert dealt_steps([ring(1, 0, 1, added=2)], Share(0, 1, 1), 9).tolist() == [[10], [11]]


def test_ranks_that_differ_in_what_they_share():
    saved = [save(Whole([0, 1])), save(Whole([2, 3]))]
    saved[1]["steps"] = 6  # the further of two counters
    assert deal(Whole([0] * 4), saved, Share(0, 4, 2))["steps"] == 6
    saved[1]["terms"]["b"]["bins"] = torch.zeros(2)
    with pytest.raises(CheckpointError, match=r"terms\.b\.bins differs between the processes"):
        deal(Whole([0] * 4), saved, Share(0, 4, 2))


def test_rows_of_another_number_of_environments():
    saved = [save(Whole([0, 1])), save(Whole([2, 3]))]
    with pytest.raises(CheckpointError, match=r"terms.a.phase of shape \(2,\)"):
        deal(Whole([0] * 4), saved, Share(0, 4, 3))


class Clocks:
    STATE = State(per_env_by_name=("left",))

    def __init__(self, **left):
        self.left = {name: torch.tensor(values) for name, values in left.items()}
        self.order = []

    def before_restore(self):
        self.order.append("before")
        for left in self.left.values():
            left.zero_()

    def on_restore(self):
        self.order.append({name: left.tolist() for name, left in self.left.items()})


def test_terms_by_name_come_back_where_both_have_them():
    other = Clocks(new=[5.0, 6.0], kept=[7.0, 8.0])
    restore(other, save(Clocks(gone=[1.0, 2.0], kept=[3.0, 4.0])), CPU)
    assert other.order == ["before", {"new": [0, 0], "kept": [3, 4]}]


class Wrapper(Base):
    STATE = State(wraps="inner")

    def __init__(self, ids):
        self.inner = Whole(ids)

    def __getattr__(self, name):
        return getattr(self.inner, name)


def test_a_wrapper_has_the_state_of_what_it_wraps():
    saved = save(Wrapper([0, 1]))
    assert saved.keys() == save(Whole([0, 1])).keys()
    other = Wrapper([8, 9])
    restore(other, saved, CPU)
    assert other.inner.terms["a"].phase.tolist() == [0, 1]
    assert list(shared(other)) == ["steps", "terms.a.bins", "terms.b.bins"]
    dealt = deal(Wrapper([0]), [saved], Share(1, 1, 2))
    assert dealt["terms"]["a"]["phase"].tolist() == [1]


def test_what_is_none_here_need_not_have_been_saved():
    saved = save(Whole([0, 1]))
    del saved["late"]
    restore(Whole([0, 1]), saved, CPU)


def test_functions_of_earlier_versions_are_refused_with_what_to_write():
    with pytest.raises(ConfigurationError, match=r"Old has _task_state\(\).* STATE = State"):
        type("Old", (DirectEnv,), {"_task_state": lambda self: {}})
    with pytest.raises(ConfigurationError, match=r"Old has rank_state\(\).* STATE = State"):
        type("Old", (Learner,), {"rank_state": lambda self: {}})
