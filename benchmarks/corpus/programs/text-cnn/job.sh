#!/bin/bash
#SBATCH -J textcnn
#SBATCH -p short
#SBATCH -G 1
#SBATCH -c 2
#SBATCH -t 1:00:00
#SBATCH -e textcnn.err -o textcnn.out

echo "epochs, batch, filters, length, texts: $@"
python textcnn.py "$@"
