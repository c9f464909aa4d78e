"""T5-base on CNN/DailyMail; one process per GPU started by srun."""
import argparse
import os

import torch
import torch.distributed as dist
from datasets import load_dataset
from transformers import AutoTokenizer, T5ForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--max-steps", type=int, default=1200)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--source-length", type=int, default=512)
cli = parser.parse_args()

rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29411", rank=rank, world_size=world)
tok = AutoTokenizer.from_pretrained("t5-base")
net = torch.nn.parallel.DistributedDataParallel(T5ForConditionalGeneration.from_pretrained("t5-base").cuda())
opt = torch.optim.AdamW(net.parameters(), 1e-4)
news = load_dataset("cnn_dailymail", "3.0.0", split="train").shard(world, rank).shuffle(seed=1)
for step in range(cli.max_steps):
    rows = news[step * cli.batch_size:(step + 1) * cli.batch_size]
    x = tok(["summarize: " + a for a in rows["article"]], max_length=cli.source_length, truncation=True, padding=True, return_tensors="pt").to("cuda")
    y = tok(rows["highlights"], max_length=128, truncation=True, padding=True, return_tensors="pt").input_ids.cuda()
    with torch.autocast("cuda", torch.bfloat16):
        loss = net(**x, labels=y).loss
    loss.backward(); opt.step(); opt.zero_grad()
