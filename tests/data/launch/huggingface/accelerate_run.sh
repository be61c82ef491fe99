#!/bin/bash
ACCELERATE_LOG_LEVEL=info accelerate launch --config_file accelerate_zero3.yaml scripts/run_sft.py --config recipe.yaml --seed 7
