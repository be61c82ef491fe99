#!/bin/bash
# Chooses a size by name, as scripts for several sizes do.
MODEL_SIZE=${1:-13b}
TP=2
PP=1
EXTRA=""

case $MODEL_SIZE in
  7b)
    NUM_LAYERS=32; HIDDEN=4096; FFN=11008; HEADS=32
    ;;
  13b)
    NUM_LAYERS=40; HIDDEN=5120; FFN=13824; HEADS=40
    ;;
  *)
    echo "unknown size $MODEL_SIZE"; exit 1
    ;;
esac

if [ $PP -gt 1 ]; then
  EXTRA="--num-layers-per-virtual-pipeline-stage $((NUM_LAYERS / PP / 2))"
elif [[ $TP -gt 1 ]]; then
  EXTRA="--sequence-parallel --tp-comm-overlap"
else
  EXTRA="--recompute-activations"
fi

CMD="torchrun --nnodes=2 --nproc-per-node=8 pretrain_gpt.py \
  --tensor-model-parallel-size=$TP --pipeline-model-parallel-size=$PP $EXTRA \
  --num-layers=$NUM_LAYERS --hidden-size=$HIDDEN --ffn-hidden-size=$FFN --num-attention-heads=$HEADS \
  --seq-length=4096 --max-position-embeddings=4096 --micro-batch-size=1 --global-batch-size=$((8 * 16)) \
  --swiglu --normalization=RMSNorm --position-embedding-type=rope --disable-bias-linear \
  --untie-embeddings-and-output-weights --attention-dropout=0 --hidden-dropout=0 \
  --vocab-size=32000 --tokenizer-type=NullTokenizer --make-vocab-size-divisible-by=128 \
  --bf16 --use-distributed-optimizer --overlap-grad-reduce --lr=3e-4 --train-iters=1000"
echo $CMD
eval $CMD
