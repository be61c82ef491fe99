#!/bin/bash
# 512 GPUs: 16 data-parallel ranks of 128 samples each.
source $(dirname ${BASH_SOURCE[0]})/config_common.sh

export DGXNNODES=64
export DGXNGPU=8
export DGXSYSTEM=$(basename $(readlink -f ${BASH_SOURCE[0]}) | sed 's/^config_//' | sed 's/\.sh$//')

export TENSOR_MODEL_PARALLEL=4
export PIPELINE_MODEL_PARALLEL=8
export INTERLEAVED_PIPELINE=6
export MINIBS=128
export MICRO_BATCH_SIZE=2
export SEQ_LENGTH=2048
export FP8=True
export TP_COMM_OVERLAP=True
export USE_DIST_OPTIMIZER=True
export MCORE_CUDA_GRAPH=1

export LR=2e-5
export MAX_STEPS=600
export WALLTIME_RUNANDTIME=60
export WALLTIME=$((5 + ${NEXP:-1} * ($WALLTIME_RUNANDTIME + 5)))
