#! /bin/bash
# An older script: one variable of options, full recomputation, fp16.
GPUS_PER_NODE=4
NNODES=2
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
DATA_PATH=my-gpt2_text_document
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank 0 --master_addr localhost --master_port 6000"

python -m torch.distributed.launch $DISTRIBUTED_ARGS \
       pretrain_gpt.py \
       --tensor-model-parallel-size 2 \
       --pipeline-model-parallel-size 2 \
       --sequence-parallel \
       --num-layers 24 \
       --hidden-size 1024 \
       --num-attention-heads 16 \
       --micro-batch-size 4 \
       --global-batch-size 16 \
       --seq-length 1024 \
       --max-position-embeddings 1024 \
       --train-iters 500000 \
       --lr-decay-iters 320000 \
       --data-path $DATA_PATH \
       --vocab-file gpt2-vocab.json \
       --merge-file gpt2-merges.txt \
       --data-impl mmap \
       --split 949,50,1 \
       --distributed-backend nccl \
       --transformer-impl local \
       --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
       --lr 0.00015 --lr-decay-style cosine --min-lr 1.0e-5 \
       --weight-decay 1e-2 --clip-grad 1.0 --lr-warmup-fraction .01 \
       --log-interval 100 --save-interval 10000 --eval-interval 1000 --eval-iters 10 \
       --fp16
