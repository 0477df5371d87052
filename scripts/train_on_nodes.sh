#!/bin/bash
# Train one adapter over several nodes of Slurm, a process for each GPU (docs/clusters.md):
#   sbatch --nodes=2 --gpus-per-node=4 scripts/train_on_nodes.sh -m pipeline.stages.train_soft --model qwen3_14b --method soft
#SBATCH --ntasks-per-node=1 --requeue --open-mode=append
first=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}
srun torchrun --nnodes="$SLURM_NNODES" --nproc_per_node="${SLURM_GPUS_ON_NODE:-1}" --rdzv_backend=c10d \
  --rdzv_id="$SLURM_JOB_ID" --rdzv_endpoint="$first:${MASTER_PORT:-29500}" "$@"
