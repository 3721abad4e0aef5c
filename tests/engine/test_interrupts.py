from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from teachaugment.engine.interrupts import MOMENT, Interrupts, Stopped


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def test_all_items_come_through_and_training_is_saved_between_them_when_it_is_time():
    interrupts, saved, seen = Interrupts(), [], []
    interrupts.due = lambda: len(seen) == 2
    interrupts.save = lambda: saved.append(len(seen))
    for item in interrupts.over(range(4), training=True):
        seen.append(item)
    assert seen == [0, 1, 2, 3] and saved == [2]
    assert list(interrupts.over(range(3))) == [0, 1, 2] and saved == [2]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_lets_the_step_finish(number, code, training, capfd):
    done = []
    with Interrupts() as interrupts, pytest.raises(Stopped) as stopped:
        for i in interrupts.over(range(9), training):
            if i == 2:
                send(number)
            done.append(i)
    assert done == [0, 1, 2] and stopped.value.code == code and "stopping after this step" in capfd.readouterr().err


def test_a_signal_does_not_wait_for_the_next_batch():
    def slow():
        yield 1
        time.sleep(60)

    began = time.monotonic()
    with Interrupts() as interrupts, pytest.raises(Stopped):
        threading.Timer(0.2, send).start()
        list(interrupts.over(slow()))
    assert time.monotonic() - began < 5 and interrupts.waited > 0.1


def test_before_training_a_signal_stops_at_once():
    with Interrupts(), pytest.raises(Stopped):
        send()
        time.sleep(60)


def test_mistakes_are_handled_without_swallowing_a_stop():
    with Interrupts(), pytest.raises(Stopped):
        try:
            send()
            time.sleep(60)
        except Exception:
            pass


def test_the_handlers_that_were_there_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("pause", "code"), [(0.0, 7), (MOMENT + 0.1, 143)])
def test_a_second_signal_leaves_at_once_unless_it_is_the_first_one_sent_twice(pause, code):
    child = os.fork()
    if child == 0:
        with Interrupts() as interrupts:
            interrupts.busy = True
            send()
            time.sleep(pause)
            send()
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
