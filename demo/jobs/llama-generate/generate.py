"""Batch text generation with tensor parallel inference."""
import argparse
import json

import deepspeed
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", required=True)
    ap.add_argument("--prompts", required=True)
    ap.add_argument("--num_samples", type=int, default=1000)
    ap.add_argument("--max_new_tokens", type=int, default=256)
    ap.add_argument("--batch_size", type=int, default=16)
    ap.add_argument("--local_rank", type=int, default=0)
    return ap.parse_args()


def chunks(items, n):
    for i in range(0, len(items), n):
        yield items[i:i + n]


@torch.inference_mode()
def main():
    args = get_args()
    tok = AutoTokenizer.from_pretrained(args.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=torch.float16)
    engine = deepspeed.init_inference(model, tensor_parallel={"tp_size": 2}, dtype=torch.float16, replace_with_kernel_inject=True)
    prompts = [json.loads(line)["text"] for line in open(args.prompts)][: args.num_samples]
    with open("answers.jsonl", "w") as out:
        for part in chunks(prompts, args.batch_size):
            ids = tok(part, return_tensors="pt", padding=True).to("cuda")
            done = engine.module.generate(**ids, max_new_tokens=args.max_new_tokens, do_sample=True, top_p=0.9)
            for text in tok.batch_decode(done, skip_special_tokens=True):
                out.write(json.dumps({"text": text}) + "\n")


if __name__ == "__main__":
    main()
