"""Several processes from one command: they find each other, and end together."""

import os
import signal
import sys
import threading
import time

import pytest

from pipeline.command import Terminated
from pipeline.dag.launch import launch
from pipeline.errors import PipelineError
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

STAGE = """
import os, signal, sys, time
from pathlib import Path
from pipeline.errors import ConfigError
from pipeline.dag.launch import run_launched

directory = sys.argv[1]

def work():
    rank = os.environ["RANK"]
    print("shown by", rank, flush=True)
    (Path(directory) / rank).write_text(f"{os.getpid()} {os.environ['WORLD_SIZE']} {os.environ['OMP_NUM_THREADS']}")
    while not all((Path(directory) / other).exists() for other in "01"):
        time.sleep(0.01)
    BODY

run_launched(work)
"""


def run(tmp_path, body):
    script = tmp_path / "stage.py"
    script.write_text(STAGE.replace("BODY", body))
    started = time.monotonic()
    try:
        launch([sys.executable, str(script), str(tmp_path)], 2)
    finally:
        assert time.monotonic() - started < 300, "the other process was waited for"
        for rank in "01":
            assert_gone(int((tmp_path / rank).read_text().split()[0]))


def assert_gone(pid):
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_processes_know_their_rank_and_the_environment_is_restored(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    before, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    run(tmp_path, "pass")
    words = [(tmp_path / rank).read_text().split() for rank in "01"]
    assert words[0][0] != words[1][0] and [word[1:] for word in words] == [["2", "3"], ["2", "3"]]
    assert dict(os.environ) == before and signal.getsignal(signal.SIGTERM) == handler
    assert capfd.readouterr().out == "shown by 0\n"


@pytest.mark.parametrize("condition", ["rank == '1'", "True"], ids=["one", "all"])
def test_an_error_of_the_user_is_one_sentence(tmp_path, capfd, condition):
    body = f"if {condition}: raise ConfigError('train.max_length: 4 is too small')\n    time.sleep(600)"
    with pytest.raises(PipelineError, match=r"^train\.max_length: 4 is too small$"):
        run(tmp_path, body)
    assert capfd.readouterr().err == ""


def test_a_defect_keeps_the_traceback_of_the_first_failure(tmp_path, capfd):
    # The first process fails behind the second, as one does whose partner is gone.
    body = "said = Path(os.environ['PIPELINE_LAUNCH_DIRECTORY'], '1.json')\n    "
    body += "while rank == '0' and not said.exists(): time.sleep(0.01)\n    raise ValueError(f'in process {rank}')"
    with pytest.raises(SystemExit) as stopped:
        run(tmp_path, body)
    shown = capfd.readouterr().err
    assert stopped.value.code == 1
    assert shown.startswith("process 1 of 2 failed\nTraceback") and shown.count("Traceback") == 1
    assert shown.endswith("ValueError: in process 1\n")


def test_a_process_that_is_killed_is_named_with_the_end_of_its_log(tmp_path, capfd):
    # The second dies when both have spoken.
    body = "print('last words', file=sys.stderr, flush=True)\n    Path(directory, 'said' + rank).touch()\n    "
    body += "while rank == '1' and not Path(directory, 'said0').exists(): time.sleep(0.01)\n    "
    body += "if rank == '1': os.kill(os.getpid(), signal.SIGKILL)\n    time.sleep(600)"
    with pytest.raises(SystemExit) as stopped:
        run(tmp_path, body)
    assert stopped.value.code == 137
    assert capfd.readouterr().err == "last words\nprocess 1 of 2 was killed by SIGKILL\nlast words\n"


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_to_the_launcher_ends_all(tmp_path, number, raised):
    def send():
        # A file is there before it is written.
        wait_until(lambda: all((tmp_path / rank).exists() and (tmp_path / rank).read_text() for rank in "01"))
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(raised):
        run(tmp_path, "time.sleep(600)")
    sender.join()
