"""A class for each pixel of pictures, from folders of pictures and masks, or a table.

    python recipes/image_segment.py --config configs/image_segment/custom.yaml --data.train PICTURES

is the same run as `zoo train image_segment/custom --data.train PICTURES`.
"""

from lightning import seed_everything

from zoo import data, inputs, training


def splits(config):
    """Labels, and which pairs are for training, choosing and testing; every file is checked."""
    return data.splits(config.data, config.run.seed, "scene")


def held_out(config, labels):
    """The test pictures and masks alone, under the labels of a model."""
    return data.held_out(config.data, labels, "scene")


def build(config, splits):
    """The model of the config, which reads masks of these values."""
    prepare = inputs.scene(config.data, splits.labels)
    return training.build(config, splits.labels, splits.target, prepare)


def loaders(config, splits, model):
    """Batches of {"pixels": (B, C, H, W), "target": (B, H, W)}, as this model takes them."""
    return data.Batches(splits, model.record.preprocess, config)


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
