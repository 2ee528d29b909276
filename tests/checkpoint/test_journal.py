"""What is on disk of a chain, whenever its process or the machine comes to an end."""

import errno
import os

import numpy as np
import pytest

from pymc_flymc import checkpoint
from pymc_flymc.checkpoint import Journal, RecordFormat, read_object, write_object

FORM = RecordFormat(
    2, {"distance": np.float64, "n_bright": np.int64, "moved": np.bool_, "odd": object}
)
CHAIN = {"tune": "3", "random_seed": "a"}
NOTHING = np.empty(0)


def opened(folder, n_draws=100, chain=CHAIN):
    return Journal(folder / "chain-0", chain, n_draws, FORM)


def draw(i):
    """The i-th draw, with statistics."""
    theta = np.random.default_rng(i).normal(size=2)
    return theta, {"distance": 0.1 * i, "n_bright": 7 * i, "moved": i % 2 == 1}


def origin(i):
    return draw(i - 1)[0] if i else np.zeros(2)


def record(to, first, last):
    """Record draws from the first to before the last; whether it was time to save each time."""
    return [to.record(origin(i), NOTHING, *draw(i)) for i in range(first, last)]


def replayed(of):
    """Replay all that there is; return the number of draws."""
    i = 0
    while (found := of.replay(origin(i), NOTHING)) is not None:
        theta, statistics = draw(i)
        np.testing.assert_array_equal(found[0], theta)
        assert found[1] == statistics
        i += 1
    return i


def saved_at(folder, n_draws, state="state"):
    one = opened(folder)
    one.save("begun")
    record(one, 0, n_draws)
    one.save(state)
    return one


def test_replays_what_was_saved_and_goes_on(tmp_path):
    one = saved_at(tmp_path, 5, "after 5")
    record(one, 5, 8)  # never saved: made again
    two = opened(tmp_path)
    assert two.state == "after 5" and replayed(two) == 5
    record(two, 5, 12)
    two.save("after 12")
    three = opened(tmp_path)
    assert three.state == "after 12" and replayed(three) == 12


def test_is_saved_with_the_last_draw_and_when_it_is_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    one = opened(tmp_path, n_draws=4)
    assert record(one, 0, 2) == [False, False]
    now[0] = checkpoint.INTERVAL
    assert record(one, 2, 3) == [True]
    one.save("state")
    assert record(one, 3, 4) == [True]  # the last one


def test_slow_savings_are_rare(tmp_path, monkeypatch):
    """They take no more than a hundredth of the time, on any disk."""
    now = [0.0]

    def slow(path, content):
        now[0] += 3.0

    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(checkpoint, "write_object", slow)
    one = opened(tmp_path)
    one.save("state")
    now[0] += 3.0 * checkpoint.RATIO - 0.1
    assert record(one, 0, 1) == [False]
    now[0] += 0.2
    assert record(one, 1, 2) == [True]


def test_draws_that_got_lost_are_made_again(tmp_path, caplog):
    """As after a power cut where fsync is a promise that was not kept."""
    saved_at(tmp_path, 5)
    file = tmp_path / "chain-0.draws"
    whole = file.read_bytes()
    for broken in (whole[:-1], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(broken)
        one = opened(tmp_path)
        assert one.state is None and replayed(one) == 0
    file.unlink()
    assert opened(tmp_path).state is None
    assert "makes its draws again" in caplog.text
    file.write_bytes(whole)
    assert opened(tmp_path).state == "state"


def test_broken_state_is_none(tmp_path):
    saved_at(tmp_path, 5)
    file = tmp_path / "chain-0.state"
    whole = file.read_bytes()
    for broken in (whole[:-1], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(broken)
        assert opened(tmp_path).state is None


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("when", ["draws", "state", "name"])
def test_full_disk_costs_no_draws(tmp_path, monkeypatch, when):
    """What was saved before stays good; once there is room all is saved that came meanwhile."""
    one = saved_at(tmp_path, 5, "after 5")
    record(one, 5, 9)
    with monkeypatch.context() as patch:
        if when == "draws":
            patch.setattr(checkpoint.os, "fsync", full)
        elif when == "state":
            patch.setattr(checkpoint, "write_object", full)
        else:
            patch.setattr(checkpoint.os, "replace", full)
        with pytest.warns(UserWarning, match=r"No space left.*draw 5 of the chain 'chain-0'"):
            one.save("after 9")
        one.save("after 9, silently")
    two = opened(tmp_path)
    assert two.state == "after 5" and replayed(two) == 5
    record(one, 9, 11)
    one.save("after 11")
    two = opened(tmp_path)
    assert two.state == "after 11" and replayed(two) == 11


@pytest.mark.parametrize("changed", [{"tune": "4"}, {"random_seed": "b"}])
def test_another_chain_is_refused(tmp_path, changed):
    saved_at(tmp_path, 5)
    (name,) = changed
    with pytest.raises(ValueError, match=f"other {name}"):
        opened(tmp_path, chain=CHAIN | changed)


def test_other_points_are_refused(tmp_path):
    saved_at(tmp_path, 5)
    one = opened(tmp_path)
    with pytest.raises(ValueError, match="initvals"):
        one.replay(np.ones(2), NOTHING)
    two = opened(tmp_path)
    two.replay(origin(0), NOTHING)
    with pytest.raises(ValueError, match="other step methods"):
        two.replay(origin(1), np.ones(1))


def test_fewer_draws_leave_the_others_on_record(tmp_path):
    saved_at(tmp_path, 5)
    one = opened(tmp_path, n_draws=3)
    for i in range(3):
        one.replay(origin(i), NOTHING)
    assert replayed(opened(tmp_path)) == 5


def test_file_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "file"
    assert read_object(path) is None
    write_object(path, "old")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.os, name, full)
            with pytest.raises(OSError, match="No space"):
                write_object(path, "new")
        assert read_object(path) == "old"
    write_object(path, "new")
    assert read_object(path) == "new"


def test_nothing_is_left_open(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    saved_at(tmp_path, 5)
    for _ in range(3):
        assert replayed(opened(tmp_path)) == 5
    after = len(os.listdir("/proc/self/fd")) if before else 0
    assert after == before
