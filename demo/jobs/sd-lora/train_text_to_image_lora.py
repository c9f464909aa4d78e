"""LoRA fine-tuning of a text-to-image latent diffusion model."""
import argparse

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from peft import LoraConfig
from transformers import CLIPTextModel, CLIPTokenizer


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrained_model_name_or_path", type=str, required=True)
    parser.add_argument("--dataset_name", type=str)
    parser.add_argument("--resolution", type=int, default=512)
    parser.add_argument("--train_batch_size", type=int, default=4)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--max_train_steps", type=int, default=800)
    parser.add_argument("--rank", type=int, default=16)
    return parser.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
    base = args.pretrained_model_name_or_path
    tok = CLIPTokenizer.from_pretrained(base, subfolder="tokenizer")
    text = CLIPTextModel.from_pretrained(base, subfolder="text_encoder").requires_grad_(False)
    vae = AutoencoderKL.from_pretrained(base, subfolder="vae").requires_grad_(False)
    unet = UNet2DConditionModel.from_pretrained(base, subfolder="unet").requires_grad_(False)
    unet.add_adapter(LoraConfig(r=args.rank, target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
    noise = DDPMScheduler.from_pretrained(base, subfolder="scheduler")
    opt = torch.optim.AdamW([p for p in unet.parameters() if p.requires_grad], 1e-4)
    from data import image_caption_loader

    loader = image_caption_loader(args.dataset_name, tok, args.resolution, args.train_batch_size)
    unet, text, vae, opt, loader = accelerator.prepare(unet, text, vae, opt, loader)
    step = 0
    while step < args.max_train_steps:
        for batch in loader:
            with accelerator.accumulate(unet):
                latents = vae.encode(batch["pixels"]).latent_dist.sample() * vae.config.scaling_factor
                eps = torch.randn_like(latents)
                t = torch.randint(0, noise.config.num_train_timesteps, (len(latents),), device=latents.device)
                pred = unet(noise.add_noise(latents, eps, t), t, text(batch["ids"])[0]).sample
                accelerator.backward(F.mse_loss(pred.float(), eps.float()))
                opt.step()
                opt.zero_grad()
            step += accelerator.sync_gradients
            if step >= args.max_train_steps:
                break


if __name__ == "__main__":
    main()
