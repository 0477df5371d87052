"""The DAG as jobs of a real Slurm on this machine: Debian's packages, where root may install and start them."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.command import RESUMES
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
SlurmdSpoolDir=/var/spool/slurm
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
STEPS = 1000
INSTALL = "apt-get install -y -qq slurm-wlm munge"
START = """set -e
mkdir -p /etc/munge /run/munge /var/spool/slurm /var/lib/slurm
[ -s /etc/munge/munge.key ] || head -c 1024 /dev/urandom > /etc/munge/munge.key
chown munge:munge /etc/munge/munge.key /run/munge && chmod 400 /etc/munge/munge.key
: > /etc/slurm/cgroup.conf
pgrep -x munged || runuser -u munge -- /usr/sbin/munged
pgrep -x slurmctld || slurmctld
sleep 1
pgrep -x slurmd || slurmd
timeout 60 srun hostname
"""


@pytest.fixture(scope="module")
def cluster():
    """A Slurm of one node, which goes on running."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("Slurm is installed with apt-get, as root")
    if shutil.which("sbatch") is None and subprocess.run(INSTALL, shell=True, capture_output=True).returncode:
        pytest.skip("apt-get cannot install slurm-wlm")
    configuration = Path("/etc/slurm/slurm.conf")
    if not configuration.exists():
        configuration.write_text(CONFIGURATION.format(host=socket.gethostname(), cpus=os.cpu_count()))
    started = subprocess.run(["bash", "-c", START], capture_output=True, text=True)
    if started.returncode:
        pytest.skip(f"Slurm does not start: {started.stderr[-300:]}")


def test_a_dag_that_is_requeued_ends_as_one_that_is_not(cluster, tmp_path, tiny_model):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    # A training of a minute, which is ended twice: ahead of its time limit, and by whoever preempts it.
    overrides = ("axes=[structured]", "methods=soft", "conditions=[base,soft]", f"train.soft.epochs={STEPS}")
    overrides += ("train.checkpoint_every_steps=100000",)
    local, project = (clone_project(tmp_path / name, tiny_model, *overrides) for name in ("local", "slurm"))
    for directory in (local, project):
        run(directory, environment, "git", "init", "-q")
    run(local, environment, sys.executable, "-m", "dvc", "repro", "--quiet")

    def asked(*words):
        return run(project, environment, sys.executable, "-m", "pipeline.runs.slurm", *words)

    def job_of(name, *state):
        only = [f"--states={state[0]}"] if state else []
        return run(project, environment, "squeue", "--me", "-h", f"--name={name}", *only, "-o", "%i").strip()

    asked("submit", "--options=--mem=1000", "--gpu-option=")
    training, log = "train-soft@embedded", project / "outputs/parallel/train-soft-embedded.log"

    def reaches(step):
        found = re.findall(rf"(\d+)/{STEPS} \[", log.read_text()) if log.exists() else []
        return found and int(found[-1]) >= step

    wait_until(lambda: reaches(100))
    run(project, environment, "scancel", "--batch", "--signal=USR1", job_of(training))
    wait_until(lambda: RESUMES in log.read_text())
    wait_until(lambda: reaches(400))
    run(project, environment, "scontrol", "requeue", job_of(training))

    # Sampling is requeued on a node that is drained: it waits, and what is cancelled meanwhile is submitted again.
    sampling, node = "generate@embedded-soft", f"NodeName={socket.gethostname()}"
    wait_until(lambda: job_of(sampling, "RUNNING"))
    run(project, environment, "scontrol", "update", node, "State=DRAIN", "Reason=test")
    run(project, environment, "scontrol", "requeue", job_of(sampling))
    wait_until(lambda: job_of(sampling, "PENDING"))
    run(project, environment, "scancel", "--me")
    wait_until(lambda: not job_of("report"))
    assert f"cancelled: {sampling}" in asked("status", "report")
    run(project, environment, "scontrol", "update", node, "State=RESUME")
    asked("submit", "--options=--mem=1000", "--gpu-option=")
    wait_until(lambda: job_of("report", "RUNNING"))
    run(project, environment, "scontrol", "requeue", job_of("report"))
    wait_until(lambda: re.fullmatch(r"\d+ done\n", asked("status")))
    assert json.loads((project / "artifacts/adapters/embedded/soft/provenance.json").read_text())["continued"]
    name = "artifacts/adapters/embedded/soft/adapter_model.safetensors"
    assert (project / name).read_bytes() == (local / name).read_bytes()
    assert (project / "reports/metrics.csv").read_bytes() == (local / "reports/metrics.csv").read_bytes()
