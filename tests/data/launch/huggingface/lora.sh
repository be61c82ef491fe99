#!/bin/bash
accelerate launch --num_processes 4 --num_machines 1 --mixed_precision bf16 trl/scripts/sft.py \
    --model_name_or_path llama3-8b \
    --dataset_name trl-lib/Capybara \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 4 \
    --max_length 1024 \
    --bf16 \
    --gradient_checkpointing \
    --learning_rate 2.0e-4 \
    --use_peft --lora_r 32 --lora_alpha 16 --lora_target_modules all-linear \
    --output_dir out --logging_steps 10 --eval_strategy no
