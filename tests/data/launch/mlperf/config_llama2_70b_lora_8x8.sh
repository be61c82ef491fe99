#!/bin/bash
# The short names of the fine-tuning benchmark.
source $(dirname ${BASH_SOURCE[0]})/config_common.sh

: "${TP:=4}"
export MAX_STEPS=800
export LR=0.0005
export MINIBS=1
export TP=4
export PP=1
export CP=2
export SP=1
export TP_COMM_OVERLAP=1
export FP8=1
export FP8_DPA=0
export SEQ_LENGTH=8192
export SKIP_EVALS=3

export DGXNNODES=8
export DGXNGPU=8
export WALLTIME_RUNANDTIME=30
