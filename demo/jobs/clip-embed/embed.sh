#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
NUM_SAMPLES=${NUM_SAMPLES:-400000}
python - <<PY
# embeddings of the image archive with CLIP; decoding JPEGs is what takes the time
import glob, torch, open_clip
from PIL import Image
from torch.utils.data import DataLoader, Dataset

num_samples = $NUM_SAMPLES
batch_size = 256

class Archive(Dataset):
    def __init__(self, pre):
        self.files, self.pre = sorted(glob.glob("/archive/**/*.jpg", recursive=True))[:num_samples], pre
    def __len__(self): return len(self.files)
    def __getitem__(self, i): return self.pre(Image.open(self.files[i]).convert("RGB"))

model, _, pre = open_clip.create_model_and_transforms("ViT-B-32", pretrained="laion2b_s34b_b79k")
model = model.cuda().half().eval()
parts = []
with torch.inference_mode():
    for images in DataLoader(Archive(pre), batch_size, num_workers=8, pin_memory=True):
        parts.append(model.encode_image(images.cuda().half()).cpu())
torch.save(torch.cat(parts), "embeddings.pt")
PY
