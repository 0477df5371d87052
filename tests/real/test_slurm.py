"""The DAG as jobs of a real Slurm of two nodes here: Debian's packages, where root may install and start them."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.command import RESUMES
from pipeline.core.random_streams import random_stream
from tests.conftest import ROOT
from tests.stages.dvc.clones import clone_project, run
from tests.waiting import wait_until

pytestmark = pytest.mark.real
CONFIGURATION = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=30
SchedulerParameters=requeue_delay=1
StateSaveLocation=/var/lib/slurm
SlurmdSpoolDir=/var/spool/slurm_%n
SlurmdPidFile=/run/slurmd_%n.pid
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=1 RealMemory=4000
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
"""
STEPS, KILLS_PER_STAGE, CHECKPOINT_EVERY = 1000, 6, 20
TRAINING, LOG = "train-soft@embedded", "outputs/parallel/train-soft-embedded.log"
ADAPTER, WEIGHTS = "artifacts/adapters/embedded/soft", "adapter_model.safetensors"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
DVC_REPRO = (sys.executable, "-m", "dvc", "repro", "--quiet")
INSTALL = "apt-get install -y -qq slurm-wlm munge"
START = """set -e
mkdir -p /etc/munge /run/munge /var/spool/slurm_n1 /var/spool/slurm_n2 /var/lib/slurm
[ -s /etc/munge/munge.key ] || head -c 1024 /dev/urandom > /etc/munge/munge.key
chown munge:munge /etc/munge/munge.key /run/munge && chmod 400 /etc/munge/munge.key
: > /etc/slurm/cgroup.conf
pgrep -x munged || runuser -u munge -- /usr/sbin/munged
pgrep -x slurmctld || slurmctld
sleep 1
pgrep -x slurmd || { slurmd -N n1; slurmd -N n2; }
timeout 60 srun --nodes=2 hostname
"""


@pytest.fixture(scope="module")
def cluster():
    """A Slurm that goes on running."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("Slurm is installed with apt-get, as root")
    if shutil.which("sbatch") is None and subprocess.run(INSTALL, shell=True, capture_output=True).returncode:
        pytest.skip("apt-get cannot install slurm-wlm")
    configuration = Path("/etc/slurm/slurm.conf")
    if not configuration.exists():
        configuration.write_text(CONFIGURATION.format(host=socket.gethostname()))
    started = subprocess.run(["bash", "-c", START], capture_output=True, text=True)
    if started.returncode:
        pytest.skip(f"Slurm does not start: {started.stderr[-300:]}")


class SlurmProject:
    """A small project whose stages are jobs."""

    def __init__(self, directory: Path):
        self.directory, self.log = directory, directory / LOG

    def command(self, *words):
        return run(self.directory, ENVIRONMENT, *words)

    def ask(self, *words):
        return self.command(sys.executable, "-m", "pipeline.runs.slurm", *words)

    def submit(self):
        self.ask("submit", "--options=--mem=1000", "--gpu-option=")

    def jobs(self, *only):
        return dict(line.split() for line in self.command("squeue", "--me", "-h", "-o", "%i %j", *only).splitlines())

    def job_of(self, name, state="RUNNING,PENDING"):
        return "".join(self.jobs(f"--name={name}", f"--states={state}"))

    def is_done(self):
        return re.fullmatch(r"\d+ done\n", self.ask("status"))

    def steps(self):
        """For each start of the training the last step told in its first second, when kept ones are, and of all."""
        bars = re.split(rf"(?=\b\d+/{STEPS} \[00:00<\?)", self.log.read_text() if self.log.exists() else "")
        return [[int(re.findall(rf"\b(\d+)/{STEPS} \[{time}", bar)[-1]) for time in ("00:00<", "")] for bar in bars[1:]]

    def reaches(self, step):
        return any(reached >= step for _, reached in self.steps())

    def continued(self):
        return json.loads((self.directory / ADAPTER / "provenance.json").read_text())["continued"]

    def is_equal(self, other):
        names = f"{ADAPTER}/{WEIGHTS}", "reports/metrics.csv"
        return all((self.directory / name).read_bytes() == (other.directory / name).read_bytes() for name in names)


@pytest.fixture(scope="module")
def projects(cluster, tmp_path_factory, tiny_model):
    """A project that has run through without Slurm, and what makes others of it."""

    def make(checkpoint_every, *more):
        overrides = ("axes=[structured]", "methods=soft", "conditions=[base,soft]", f"train.soft.epochs={STEPS}")
        overrides += (f"train.checkpoint_every_steps={checkpoint_every}", *more)
        project = SlurmProject(clone_project(tmp_path_factory.mktemp("slurm"), tiny_model, *overrides))
        project.command("git", "init", "-q")
        return project

    local = make(STEPS)
    local.command(*DVC_REPRO)
    return local, make


def test_a_dag_that_is_requeued_ends_as_one_that_is_not(projects):
    local, make = projects
    project = make(checkpoint_every=STEPS)
    project.submit()

    # Ended ahead of its time limit, and by whoever preempts it.
    wait_until(lambda: project.reaches(100))
    project.command("scancel", "--batch", "--signal=USR1", project.job_of(TRAINING))
    wait_until(lambda: RESUMES in project.log.read_text())
    wait_until(lambda: project.reaches(400))
    project.command("scontrol", "requeue", project.job_of(TRAINING))

    # Sampling is requeued on a node that is drained: it waits, and what is cancelled meanwhile is submitted again.
    sampling, node = "generate@embedded-soft", "NodeName=n[1-2]"
    wait_until(lambda: project.job_of(sampling, "RUNNING"))
    project.command("scontrol", "update", node, "State=DRAIN", "Reason=test")
    project.command("scontrol", "requeue", project.job_of(sampling))
    wait_until(lambda: project.job_of(sampling, "PENDING"))
    project.command("scancel", "--me")
    wait_until(lambda: not project.job_of("report"))
    assert f"cancelled: {sampling}" in project.ask("status", "report")
    project.command("scontrol", "update", node, "State=RESUME")
    project.submit()
    wait_until(lambda: project.job_of("report", "RUNNING"))
    project.command("scontrol", "requeue", project.job_of("report"))
    wait_until(project.is_done)
    assert project.continued()
    assert project.is_equal(local)


def test_a_training_over_two_nodes_that_is_requeued_ends_as_one_on_one_node(projects):
    _, make = projects
    project = make(STEPS, "distributed=fsdp_4", "distributed.num_processes=2", "train.micro_batch_size=2")
    project.command(*DVC_REPRO, TRAINING)
    adapter = project.directory / ADAPTER
    local = adapter.rename(project.directory / "on_one_node")

    submit = ("sbatch", "--parsable", "--nodes=2", "--mem=2000", f"--output={LOG}", ROOT / "scripts/train_on_nodes.sh")
    (project.directory / LOG).parent.mkdir(parents=True, exist_ok=True)
    job = project.command(*submit, "-m", "pipeline.stages.train_soft", "--model=embedded", "--method=soft")
    wait_until(lambda: project.reaches(100))
    project.command("scontrol", "requeue", job.strip())
    wait_until(adapter.exists)
    assert project.continued()
    assert (adapter / WEIGHTS).read_bytes() == (local / WEIGHTS).read_bytes()


def test_jobs_that_are_killed_at_random_lose_only_what_was_in_flight(projects):
    local, make = projects
    project, rng, killed = make(checkpoint_every=CHECKPOINT_EVERY), random_stream(0, "kills"), Counter()
    while not project.is_done():
        project.submit()
        time.sleep(rng.uniform(0, 8))
        running = project.jobs("--states=RUNNING")
        for job in [job for job, name in running.items() if killed[name] < KILLS_PER_STAGE]:
            # As the kernel does where memory runs out: every process of the job, none of which is told.
            listed = subprocess.run(["scontrol", "listpids", job], capture_output=True, text=True).stdout
            subprocess.run(["kill", "-9", *re.findall(r"^ *(\d+)", listed, re.MULTILINE)], capture_output=True)
            killed[running[job]] += 1
    print(f"{killed.total()} jobs were killed, the training began {len(project.steps())} times")
    lost = [reached - kept for (_, reached), (kept, _) in pairwise(project.steps())]
    assert killed and lost and max(lost) <= CHECKPOINT_EVERY
    assert project.is_equal(local)
