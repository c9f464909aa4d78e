import argparse
import pathlib

import whisper

# Transcribes the oral-history archive, longest recordings first, until so many hours are done. Batch size one, beam search.
cli = argparse.ArgumentParser()
cli.add_argument("--hours", type=float, default=20)
cli.add_argument("--model", default="medium")
cli.add_argument("--beam-size", type=int, default=5)
cli.add_argument("--language", default="en")
opts = cli.parse_args()

model = whisper.load_model(opts.model, device="cuda")
done = 0.0
for wav in sorted(pathlib.Path("/archive/interviews").glob("*.wav"), key=lambda p: -p.stat().st_size):
    audio = whisper.load_audio(str(wav))
    result = model.transcribe(audio, beam_size=opts.beam_size, language=opts.language, fp16=True)
    wav.with_suffix(".txt").write_text(result["text"])
    done += len(audio) / 16000 / 3600
    print(f"{done:.1f} h", wav.name, flush=True)
    if done >= opts.hours:
        break
