#!/bin/bash
# A mixture of experts with latent attention on 256 ranks.
NNODES=32
torchrun --nproc-per-node 8 --nnodes ${NNODES} pretrain_gpt.py \
  --num-layers 28 --hidden-size 2048 --ffn-hidden-size 10944 --num-attention-heads 16 \
  --multi-latent-attention --kv-lora-rank 512 --q-lora-rank 1536 --qk-head-dim 128 \
  --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm \
  --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 2048 \
  --position-embedding-type rope --rotary-base 10000 --swiglu --normalization RMSNorm --norm-epsilon 1e-6 \
  --disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 \
  --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 --moe-shared-expert-intermediate-size 2816 \
  --moe-router-score-function sigmoid --moe-router-topk-scaling-factor 2.5 --moe-aux-loss-coeff 1e-4 \
  --moe-router-enable-expert-bias --moe-router-bias-update-rate 1e-3 --moe-router-load-balancing-type seq_aux_loss \
  --moe-grouped-gemm --moe-token-dispatcher-type flex --moe-enable-deepep --moe-permute-fusion \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 64 --expert-tensor-parallel-size 1 \
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
  --recompute-granularity selective --recompute-modules moe_act layernorm mla_up_proj \
  --bf16 --vocab-size 129280 --tokenizer-type NullTokenizer --lr 2.2e-4 --train-iters 10000 --mock-data
