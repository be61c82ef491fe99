#!/usr/bin/bash
# Everything on the command line, with dots.
NGPU=${NGPU:-"8"}
LOG_RANK=${LOG_RANK:-0}
torchrun --nproc_per_node=${NGPU} --rdzv_backend c10d --local-ranks-filter ${LOG_RANK} -m torchtitan.train \
  --model.name llama3 --model.flavor 8B --training.local_batch_size 4 --training.seq_len 4096 \
  --parallelism.tensor_parallel_degree 2 --parallelism.pipeline_parallel_degree 2 \
  --parallelism.pipeline_parallel_schedule 1F1B --activation_checkpoint.mode none \
  --training.steps 20 --metrics.log_freq 1
