#!/usr/bin/env python
"""Extractive question answering with BERT-large on SQuAD, Hugging Face Trainer."""
from dataclasses import dataclass, field

from datasets import load_dataset
from transformers import (AutoModelForQuestionAnswering, AutoTokenizer, DefaultDataCollator, HfArgumentParser, Trainer,
                          TrainingArguments)


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="bert-large-uncased")


@dataclass
class DataArguments:
    dataset_name: str = field(default="squad")
    max_seq_length: int = field(default=384)
    doc_stride: int = field(default=128)


@dataclass
class QATrainingArguments(TrainingArguments):
    output_dir: str = field(default="out")
    num_train_epochs: float = field(default=1)
    per_device_train_batch_size: int = field(default=16)
    learning_rate: float = field(default=3e-5)
    fp16: bool = field(default=True)


def main():
    model_args, data_args, args = HfArgumentParser((ModelArguments, DataArguments, QATrainingArguments)).parse_args_into_dataclasses()
    raw = load_dataset(data_args.dataset_name)
    tok = AutoTokenizer.from_pretrained(model_args.model_name_or_path)

    def prepare(batch):
        enc = tok(batch["question"], batch["context"], truncation="only_second", max_length=data_args.max_seq_length,
                  stride=data_args.doc_stride, padding="max_length", return_offsets_mapping=True)
        starts, ends = [], []
        for i, offsets in enumerate(enc.pop("offset_mapping")):
            answer = batch["answers"][i]
            a = answer["answer_start"][0]
            b = a + len(answer["text"][0])
            starts.append(next((k for k, (s, e) in enumerate(offsets) if s <= a < e), 0))
            ends.append(next((k for k, (s, e) in enumerate(offsets) if s < b <= e), 0))
        return {**enc, "start_positions": starts, "end_positions": ends}

    train = raw["train"].map(prepare, batched=True, remove_columns=raw["train"].column_names)
    model = AutoModelForQuestionAnswering.from_pretrained(model_args.model_name_or_path)
    Trainer(model, args, train_dataset=train, data_collator=DefaultDataCollator()).train()


if __name__ == "__main__":
    main()
