#!/bin/bash
#SBATCH --gres=gpu:2
#SBATCH --comment="answers for the survey paper"
deepspeed --num_gpus 2 generate.py --model meta-llama/Llama-2-13b-hf --prompts prompts.jsonl "$@"
