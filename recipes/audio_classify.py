"""Labels or numbers for sounds, from class folders, a folder with a metadata.csv, or a table.

    python recipes/audio_classify.py --config configs/audio_classify/small_scratch.yaml \
        --data.train SOUNDS

is the same run as `zoo train audio_classify/small_scratch --data.train SOUNDS`.
"""

from lightning import seed_everything

from zoo import data, inputs, training


def splits(config):
    """Labels, and which sounds are for training, choosing and testing; every file is checked."""
    return data.splits(config.data, config.run.seed, "sound")


def held_out(config, labels):
    """The test sounds alone, under the labels of a model."""
    return data.held_out(config.data, labels, "sound")


def build(config, splits):
    """The model of the config, for these labels."""
    prepare = inputs.sound(config.data, splits)
    return training.build(config, splits.labels, splits.target, prepare, splits.scale)


def loaders(config, splits, model):
    """Batches of {"frames": (B, T, mels), "keep": (B, T), "target": (B,)} for this model."""
    return training.cached(data.Batches(splits, model.record.preprocess, config), model)


def main(config):
    """Data -> model -> task -> trainer. Nothing is written before the `with`."""
    seed_everything(config.run.seed, verbose=False)
    rows = splits(config)
    model = build(config, rows)
    batches = loaders(config, rows, model)
    task = training.Task(model, config)
    with training.Run(config, model, rows) as run:
        trainer = training.trainer(config, run)
        trainer.fit(task, datamodule=batches, ckpt_path=run.resumes)
        return run.finish(trainer, task, batches)


if __name__ == "__main__":
    from zoo import cli

    raise SystemExit(cli.script(main))
