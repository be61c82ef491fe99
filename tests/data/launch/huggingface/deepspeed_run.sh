#!/bin/bash
# The Trainer's values fill in DeepSpeed's "auto".
deepspeed --num_gpus 8 run_clm.py \
    --deepspeed ds_auto.json \
    --model_name_or_path gpt2-xl \
    --do_train \
    --train_file train.txt \
    --block_size 1024 \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --bf16 True \
    --tf32 True \
    --gradient_checkpointing True \
    --learning_rate 2e-5 \
    --num_train_epochs 3 \
    --output_dir /tmp/out \
    --save_steps 500
