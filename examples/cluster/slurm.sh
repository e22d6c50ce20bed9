#!/bin/bash
# A Ray cluster on the nodes of a job, and a training on it: sbatch examples/cluster/slurm.sh
#SBATCH --job-name=gmi-drl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --exclusive
#SBATCH --time=01:00:00
# With GPUs: --gpus-per-node=8, and --num-gpus 8 for both `ray start`.

set -euo pipefail
export RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0 # else GMIs give way to all else on their nodes
head=$(hostname) # where this script runs is the first node of the job, and the launcher's
export RAY_ADDRESS="$head:6379"
cpus=${SLURM_CPUS_PER_TASK:-2}

ray start --head --port 6379 --num-cpus "$cpus" --object-store-memory 80000000 --include-dashboard false --block &
sleep 10
srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$head" \
  ray start --address "$RAY_ADDRESS" --num-cpus "$cpus" --object-store-memory 80000000 --block &
trap 'kill $(jobs -p)' EXIT

gmi-drl train examples/cluster/layout.yaml --launcher ray --iterations 500
