"""Speech recognition: wav2vec 2.0 base with a CTC head on LibriSpeech 100 h, two nodes."""
import os
from argparse import ArgumentParser

import torch
import torch.distributed as dist
from datasets import load_dataset
from transformers import Wav2Vec2ForCTC, Wav2Vec2Processor


def build_parser():
    p = ArgumentParser()
    p.add_argument("--max-updates", type=int, default=1500)
    p.add_argument("--per-device-batch", type=int, default=8)
    p.add_argument("--freeze-feature-encoder", action="store_true")
    p.add_argument("--lr", type=float, default=1e-4)
    return p


def main():
    args = build_parser().parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    processor = Wav2Vec2Processor.from_pretrained("facebook/wav2vec2-base")
    net = Wav2Vec2ForCTC.from_pretrained("facebook/wav2vec2-base", vocab_size=len(processor.tokenizer)).cuda()
    net.freeze_feature_encoder()
    net = torch.nn.parallel.DistributedDataParallel(net)
    speech = load_dataset("librispeech_asr", "clean", split="train.100", streaming=True).shuffle(buffer_size=500)
    opt = torch.optim.AdamW(net.parameters(), args.lr)
    batch = []
    update = 0
    for sample in speech:
        batch.append(sample)
        if len(batch) < args.per_device_batch:
            continue
        x = processor([s["audio"]["array"] for s in batch], sampling_rate=16000, return_tensors="pt", padding=True)
        y = processor(text=[s["text"] for s in batch], return_tensors="pt", padding=True).input_ids
        with torch.autocast("cuda", torch.float16):
            loss = net(x.input_values.cuda(), labels=y.masked_fill(y == 0, -100).cuda()).loss
        loss.backward(); opt.step(); opt.zero_grad()
        batch, update = [], update + 1
        if update == args.max_updates:
            break


if __name__ == "__main__":
    main()
