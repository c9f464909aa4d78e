import argparse
import torch
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

ap = argparse.ArgumentParser()
ap.add_argument("--task", default="mnli")
ap.add_argument("--num-train-epochs", type=int, default=2)
ap.add_argument("--train-batch-size", type=int, default=32)
opts = ap.parse_args()

tok = AutoTokenizer.from_pretrained("bert-base-uncased")
ds = load_dataset("glue", opts.task)["train"]
ds = ds.map(lambda r: tok(r["premise"], r["hypothesis"], truncation=True, max_length=128, padding="max_length"), batched=True)
ds.set_format("torch", ["input_ids", "attention_mask", "label"])
loader = torch.utils.data.DataLoader(ds, opts.train_batch_size, shuffle=True)

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3).cuda()
optim = torch.optim.AdamW(model.parameters(), lr=2e-5)
scaler = torch.cuda.amp.GradScaler()
steps = len(loader) * opts.num_train_epochs
sched = get_linear_schedule_with_warmup(optim, steps // 10, steps)
for epoch in range(opts.num_train_epochs):
    for batch in loader:
        with torch.cuda.amp.autocast():
            out = model(input_ids=batch["input_ids"].cuda(), attention_mask=batch["attention_mask"].cuda(), labels=batch["label"].cuda())
        scaler.scale(out.loss).backward()
        scaler.step(optim); scaler.update()
        sched.step(); optim.zero_grad()
    print("epoch", epoch, out.loss.item())
