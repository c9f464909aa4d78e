#!/bin/bash
#SBATCH --job-name=style
#SBATCH --gpus=1
#SBATCH --time=00:45:00
#SBATCH --mem=12G
## one content image, one style image; results are only logged
CONTENT=rings
STYLE=checker
python neural_style.py --content $CONTENT --style $STYLE "$@"
