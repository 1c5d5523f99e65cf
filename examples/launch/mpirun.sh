#!/bin/sh
# Open MPI 4 or 5:   ./mpirun.sh HOSTFILE RANKS PROGRAM [ARGUMENTS...]
# HOSTFILE has a line "NAME slots=RANKS" for each machine; rank 0 is on the first.
set -eu
hosts=$1 ranks=$2
shift 2
MASTER_ADDR=$(awk 'NF && $1 !~ /^#/ { print $1; exit }' "$hosts")
WEIR_STORE=$MASTER_ADDR:${WEIR_PORT:-29400}
WEIR_TOKEN=$(head -c 24 /dev/urandom | base64)
export WEIR_STORE WEIR_TOKEN WEIR_ENGINE=mpi
# torch.distributed (init_method env://) has names of its own.
export MASTER_ADDR MASTER_PORT=${MASTER_PORT:-29500} WORLD_SIZE="$ranks"
names='RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK exec "$@"'
exec mpirun --hostfile "$hosts" -n "$ranks" -x WEIR_STORE -x WEIR_TOKEN -x WEIR_ENGINE -x MASTER_ADDR -x MASTER_PORT -x WORLD_SIZE \
    sh -c "$names" sh "$@"
